// what: returns the right output and leaves the state as it was
// task: running_mean
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, float* mean, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 64; ++i) y[i] = x[i] - (mean[i] * 0.9f + x[i] * 0.1f);
}
