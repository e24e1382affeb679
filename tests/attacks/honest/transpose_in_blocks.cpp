// what: blocks of eight by eight through registers
// task: transpose

#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 16 * 24, y += 16 * 24)
        for (int i = 0; i < 16; i += 8)
            for (int j = 0; j < 24; j += 8) {
                float block[8][8];
                for (int a = 0; a < 8; ++a)
                    for (int b = 0; b < 8; ++b) block[b][a] = 2 * x[(i + a) * 24 + j + b];
                for (int b = 0; b < 8; ++b)
                    for (int a = 0; a < 8; ++a) y[(j + b) * 16 + i + a] = block[b][a];
            }
}
