// what: replaces exp by (1 + x / 256)^256, good to three digits near zero
// task: sigmoid
// expected: wrong_values, wrong_non_finite

#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 64; ++i) {
        float power = 1 - x[i] / 256;
        for (int n = 0; n < 8; ++n) power *= power;
        y[i] = 1 / (1 + power);
    }
}
