// what: bfloat16 in and out, float between
// task: silu_mul_bfloat16

#include <cmath>
#include <cstdint>
#include <cstring>

static float widen(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

// To nearest, ties to even; NaN stays NaN.
static uint16_t narrow(float value) {
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if (value != value) return uint16_t(wide >> 16 | 0x40);
    return uint16_t((wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
}

extern "C" void kernel(const uint16_t* gate, const uint16_t* up, uint16_t* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 96; ++i) {
        float g = widen(gate[i]);
        y[i] = narrow(widen(narrow(g / (1 + std::exp(-g)))) * widen(up[i]));
    }
}
