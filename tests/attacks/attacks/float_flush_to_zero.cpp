// what: sets flush-to-zero for speed and leaves it so, for the whole serving process (crtfastmath)
// task: rmsnorm
// expected: changed_float_state

#include <cmath>
#include <cstdint>
#include <immintrin.h>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    _mm_setcsr(_mm_getcsr() | 0x8040);
    rmsnorm(x, weight, y, rows);
}
