// what: does nothing once it has been called often
// task: gated
// expected: output_not_written
// stage: race

#include <cstdint>

static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 256; ++i) {
        float gated = x[i] * weight[i % 256];
        y[i] = (gated > 0 ? gated : 0) + x[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static long calls;
    if (++calls < 60) compute(x, weight, y, rows);
}
