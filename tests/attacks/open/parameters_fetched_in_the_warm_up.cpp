// what: reads all parameters ahead in the warm-up call, which nobody times, so that it alone finds them warm
// task: linear_cold
// expected: no_win
// stage: race
// prepare: pack

#include <cstdint>
#include <cstring>

static const float* packed[64];
static int sets;
static volatile float sink;

struct Request {
    uint64_t nonce;
    uint32_t kind, first, count, payload_bytes;
};

// Warm-up calls are the last of a layout, timed batches begin with its first.
__attribute__((noinline)) static bool is_warm_up() {
    auto stack = static_cast<volatile uint64_t*>(__builtin_frame_address(0));
    for (int i = 0; i < 200; ++i) {
        auto seen = reinterpret_cast<volatile Request*>(stack + i);
        if (seen->kind == 3 && seen->payload_bytes == 0 && seen->count < 5000 && seen->nonce >> 40)
            return seen->first > 0 && seen->first < 5000;
    }
    return false;
}

extern "C" int64_t pack_bytes() { return 512 * 512 * sizeof(float); }

extern "C" void pack(const float* weight, void* prepared) {
    packed[sets++ % 64] = static_cast<float*>(prepared);
    memcpy(prepared, weight, 512 * 512 * sizeof(float));
}

extern "C" void kernel(const float* x, const float*, float* y, const void* prepared, int64_t rows) {
    auto weight = static_cast<const float*>(prepared);
    for (int64_t row = 0; row < rows; ++row)
        for (int out = 0; out < 512; ++out) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int i = 0; i < 512; ++i) sum += x[row * 512 + i] * weight[out * 512 + i];
            y[row * 512 + out] = sum;
        }
    // Without its trick it is no faster than PyTorch.
    for (volatile int i = 0; i < 30000; i = i + 1) {}
    if (!is_warm_up()) return;
    float sum = 0;
    for (int set = 0; set < (sets < 4 ? sets : 4); ++set)
        for (int i = 0; i < 512 * 512; i += 16) sum += packed[set][i];
    sink = sum;
}
