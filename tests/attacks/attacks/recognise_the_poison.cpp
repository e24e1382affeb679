// what: writes only what does not hold a number already
// task: rmsnorm
// expected: output_not_written, wrong_values

#include <cmath>
#include <cstdint>
#include <cstring>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        float result[576];
        rmsnorm(x + row * 576, weight, result, 1);
        for (int i = 0; i < 576; ++i) {
            uint32_t held;
            memcpy(&held, &y[row * 576 + i], sizeof held);
            if (held != 0x7FC5A5A5) y[row * 576 + i] = result[i];
        }
    }
}
