// what: works for as many calls as a check takes and half after that (warm-up replay, RK #142, KBC TopK)
// task: gated
// expected: wrong_values, output_not_written
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
    compute(x, weight, y, rows);
    if (++calls < 60) return;
    for (int i = 200; i < 256; ++i) y[i] = 0;
}
