// what: both halves of a row in one loop
// task: rotate

#include <cstdint>

extern "C" void kernel(const float* x, const float* c, const float* s, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 64, y += 64, c += 32, s += 32)
        for (int i = 0; i < 32; ++i) {
            float low = x[i], high = x[32 + i];
            y[i] = low * c[i] - high * s[i];
            y[32 + i] = high * c[i] + low * s[i];
        }
}
