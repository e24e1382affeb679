// what: a state that decays towards its input
// task: running_mean

#include <cstdint>

extern "C" void kernel(const float* x, float* mean, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 64; ++i) {
        mean[i] = mean[i] * 0.9f + x[i] * 0.1f;
        y[i] = x[i] - mean[i];
    }
}
