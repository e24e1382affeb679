// what: takes the reciprocal root that the processor approximates to 14 bits, without a Newton step
// task: rmsnorm
// expected: wrong_values

#include <cstdint>
#include <immintrin.h>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(float(sum / 576 + 1e-5))));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}
