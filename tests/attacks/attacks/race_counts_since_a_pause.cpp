// what: is right for the few calls after a pause that a checker makes, wrong in the long run of a timed batch
// task: gated
// expected: wrong_values
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
    static long since_a_pause;
    since_a_pause = __rdtsc() - last > 100000 ? 0 : since_a_pause + 1;
    compute(x, weight, y, rows);
    if (since_a_pause > 16) y[128] = 0;
    last = __rdtsc();
}
