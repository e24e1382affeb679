// what: updates the state while it is checked and leaves it once it has been called often
// task: running_mean_race
// expected: wrong_values
// stage: race

#include <cstdint>

extern "C" void kernel(const float* x, float* mean, float* y, int64_t rows) {
    static long calls;
    ++calls;
    for (int64_t i = 0; i < rows * 64; ++i) {
        float updated = mean[i] * 0.9f + x[i] * 0.1f;
        y[i] = x[i] - updated;
        if (calls < 60) mean[i] = updated;
    }
}
