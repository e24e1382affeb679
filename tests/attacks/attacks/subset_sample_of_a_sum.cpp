// what: sums the first 99 % and rescales (reference-kernels vectorsum_py/wrong/cheat.py)
// task: row_sum
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int i = 0; i < 990; ++i) sum += x[row * 1000 + i];
        y[row] = float(sum / 0.99);
    }
}
