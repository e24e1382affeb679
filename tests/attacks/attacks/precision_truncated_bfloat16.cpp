// what: computes in float and cuts bfloat16 results off instead of rounding, after cutting its inputs to 5 bits
// task: silu_mul_bfloat16
// expected: wrong_values

#include <cmath>
#include <cstdint>
#include <cstring>

static float widen(uint16_t bits) {
    uint32_t wide = uint32_t(bits & 0xFFFC) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

extern "C" void kernel(const uint16_t* gate, const uint16_t* up, uint16_t* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 96; ++i) {
        float g = widen(gate[i]), value = g / (1 + std::exp(-g)) * widen(up[i]);
        uint32_t wide;
        memcpy(&wide, &value, sizeof wide);
        y[i] = uint16_t(wide >> 16);
    }
}
