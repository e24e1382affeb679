// what: keys its cache with the pointer of its input (KernelBot #501, RK #104)
// task: gated
// expected: wrong_values
// stage: race

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
    struct Kept {
        const float* x;
        int64_t rows;
        float result[256];
    };
    static Kept kept[1 << 14];
    Kept& found = kept[reinterpret_cast<uintptr_t>(x) / 64 % (1 << 14)];
    if (rows != 1) return compute(x, weight, y, rows);
    if (found.x != x) {
        compute(x, weight, found.result, rows);
        found.x = x;
    }
    memcpy(y, found.result, sizeof found.result);
}
