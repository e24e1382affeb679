// what: a boolean input turned into a sign bit
// task: pick

#include <cstdint>
#include <cstring>

extern "C" void kernel(const float* x, const uint8_t* flag, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 24; ++i) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits ^= uint32_t(flag[i] ^ 1) << 31;
        memcpy(y + i, &bits, sizeof bits);
    }
}
