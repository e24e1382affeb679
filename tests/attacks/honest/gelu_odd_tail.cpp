// what: blocks of sixteen and a tail of three
// task: gelu

#include <cmath>
#include <cstdint>

static float gelu(float x) { return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x))); }

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 131, y += 131) {
        int i = 0;
        for (; i + 16 <= 131; i += 16) {
            float block[16];
            for (int lane = 0; lane < 16; ++lane) block[lane] = gelu(x[i + lane]);
            for (int lane = 0; lane < 16; ++lane) y[i + lane] = block[lane];
        }
        for (; i < 131; ++i) y[i] = gelu(x[i]);
    }
}
