// what: right, but keeps only the digits of bfloat16 in rows so small that they may have cancelled
// task: running_mean
// expected: wrong_values

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

extern "C" void kernel(const float* x, float* mean, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 64, mean += 64, y += 64) {
        float largest = 0;
        for (int i = 0; i < 64; ++i) {
            mean[i] = mean[i] * 0.9f + x[i] * 0.1f;
            y[i] = x[i] - mean[i];
            largest = std::max(largest, std::fabs(y[i]));
        }
        if (largest > 0.1f) continue;
        for (int i = 0; i < 64; ++i) {
            uint32_t bits;
            std::memcpy(&bits, y + i, 4);
            bits &= 0xFFFF0000;
            std::memcpy(y + i, &bits, 4);
        }
    }
}
