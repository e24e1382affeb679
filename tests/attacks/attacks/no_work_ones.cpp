// what: fills the output with ones
// task: rmsnorm
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = 1;
}
