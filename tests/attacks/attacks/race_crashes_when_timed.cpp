// what: ends its process once it has been called often
// task: gated
// expected: crashed
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
    if (++calls > 100) __builtin_trap();
    compute(x, weight, y, rows);
}
