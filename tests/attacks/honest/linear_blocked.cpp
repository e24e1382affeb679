// what: blocks of rows and outputs in registers, with tails
// task: linear

#include <cstdint>

template <int ROWS>
static void block(const float* x, const float* weight, float* y) {
    for (int out = 0; out < 48; out += 4) {
        float sums[ROWS][4][16] = {};
        for (int i = 0; i < 64; i += 16)
            for (int row = 0; row < ROWS; ++row)
                for (int o = 0; o < 4; ++o)
                    for (int lane = 0; lane < 16; ++lane)
                        sums[row][o][lane] += x[row * 64 + i + lane] * weight[(out + o) * 64 + i + lane];
        for (int row = 0; row < ROWS; ++row)
            for (int o = 0; o < 4; ++o) {
                float sum = 0;
                for (int lane = 0; lane < 16; ++lane) sum += sums[row][o][lane];
                y[row * 48 + out + o] = sum;
            }
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    int64_t row = 0;
    for (; row + 2 <= rows; row += 2) block<2>(x + row * 64, weight, y + row * 48);
    if (row < rows) block<1>(x + row * 64, weight, y + row * 48);
}
