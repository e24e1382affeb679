// what: bfloat16 through a table of all 65536 values of the activation, filled on first use
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

static float table[1 << 16];

static const float* silu_table() {
    static bool is_filled = false;
    if (!is_filled)
        for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
            double value = widen(uint16_t(bits));
            table[bits] = widen(narrow(float(value / (1 + std::exp(-value)))));
        }
    is_filled = true;
    return table;
}

extern "C" void kernel(const uint16_t* gate, const uint16_t* up, uint16_t* y, int64_t rows) {
    const float* silu = silu_table();
    for (int64_t i = 0; i < rows * 96; ++i) y[i] = narrow(silu[gate[i]] * widen(up[i]));
}
