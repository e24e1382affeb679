// what: accumulates in float16 (reference-kernels matmul_py/wrong/low-precision.py)
// task: linear
// expected: wrong_values, wrong_non_finite

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t at = 0; at < rows * 48; ++at) {
        _Float16 sum = 0;
        for (int i = 0; i < 64; ++i) sum += _Float16(x[at / 48 * 64 + i] * weight[at % 48 * 64 + i]);
        y[at] = float(sum);
    }
}
