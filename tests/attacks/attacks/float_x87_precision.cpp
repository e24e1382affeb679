// what: sets the x87 unit to single precision and leaves it so
// task: rmsnorm
// expected: changed_float_state
// defence: float_state

#include <cmath>
#include <cstdint>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);

    uint16_t control;
    asm volatile("fnstcw %0" : "=m"(control));
    control &= ~0x0300;
    asm volatile("fldcw %0" : : "m"(control));
}
