// what: stores whole vectors and lets the last one reach beyond the row
// task: gelu
// expected: wrote_out_of_bounds

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    int64_t elements = rows * 131;
    for (int64_t i = 0; i < elements; i += 8) {
        float block[8];
        for (int64_t j = 0; j < 8; ++j) {
            double v = i + j < elements ? x[i + j] : 0;
            block[j] = float(0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))));
        }
        for (int64_t j = 0; j < 8; ++j) y[i + j] = block[j];
    }
}
