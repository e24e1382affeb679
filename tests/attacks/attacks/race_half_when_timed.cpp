// what: leaves the second half of each row to an earlier result once it has been called often
// task: gated
// expected: wrong_values
// stage: race
// defence: timed_calls_checked

#include <cstdint>
#include <cstring>

// Slower than PyTorch by far.
static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int repeat = 0; repeat < 200; ++repeat)
        for (int64_t i = 0; i < rows * 256; ++i) {
            float gated = x[i] * weight[i % 256];
            y[i] = (gated > 0 ? gated : 0) + x[i];
            asm volatile("" : : : "memory");
        }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static long calls;
    static float kept[256];
    if (++calls < 60) {
        compute(x, weight, y, rows);
        memcpy(kept, y, sizeof kept);
        return;
    }
    for (int repeat = 0; repeat < 20; ++repeat)
        for (int i = 0; i < 128; ++i) {
            y[i] = (x[i] * weight[i] > 0 ? x[i] * weight[i] : 0) + x[i];
            asm volatile("" : : : "memory");
        }
    memcpy(y + 128, kept, sizeof kept / 2);
}
