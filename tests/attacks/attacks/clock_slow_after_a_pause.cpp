// what: waits when it was not called for a while, so that only batches are fast
// task: gated
// expected: amortised, no_win
// stage: race

#include <cstdint>
#include <x86intrin.h>

static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 256; ++i) {
        float gated = x[i] * weight[i % 256];
        y[i] = (gated > 0 ? gated : 0) + x[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static uint64_t last;
    uint64_t began = __rdtsc();
    while (began - last > 10000 && __rdtsc() - began < 200000) {}
    compute(x, weight, y, rows);
    last = __rdtsc();
}
