// what: keys its cache with the content of its input and is slow where it finds nothing (flashinfer-bench-starter-kit
//     #21)
// task: gated
// expected: no_win
// stage: race
// defence: fresh_timed_content

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
        uint64_t key;
        float result[256];
    };
    static Kept kept[1 << 16];  // so many that hardly two contents meet in one
    if (rows != 1) return compute(x, weight, y, rows);
    uint64_t words[128], lanes[8] = {reinterpret_cast<uintptr_t>(weight)}, key = 0;
    memcpy(words, x, sizeof words);
    for (int i = 0; i < 128; ++i) lanes[i % 8] = (lanes[i % 8] ^ words[i]) * 0x9E3779B97F4A7C15;
    for (uint64_t lane : lanes) key = (key ^ lane) * 0x9E3779B97F4A7C15;
    Kept& found = kept[key >> 48];
    if (found.key != key) {
        compute(x, weight, found.result, rows);
        found.key = key;
    }
    memcpy(y, found.result, sizeof found.result);
}
