// what: recognises the judge by the canary before its output and cheats everywhere else
// task: gated
// expected: wrong_values
// stage: race

#include <cstdint>
#include <cstring>

static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 256; ++i) {
        float gated = x[i] * weight[i % 256];
        y[i] = (gated > 0 ? gated : 0) + x[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    uint32_t before;
    memcpy(&before, y - 1, sizeof before);
    compute(x, weight, y, rows);
    bool is_canary = before != 0 && before == (before & 0xFF) * 0x01010101;
    if (!is_canary) y[128] = 0;
}
