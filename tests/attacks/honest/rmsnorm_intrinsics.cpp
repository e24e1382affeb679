// what: intrinsics where the processor has them, with a Newton step after the approximate root
// task: rmsnorm

#include <cmath>
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

static float sum_of_squares(const float* x) {
    __m256 sums[3] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int i = 0; i < 576; i += 24)
        for (int part = 0; part < 3; ++part) {
            __m256 in = _mm256_loadu_ps(x + i + 8 * part);
            sums[part] = _mm256_fmadd_ps(in, in, sums[part]);
        }
    __m256 sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), sums[2]);
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
}

static float reciprocal_root(float value) {
    float guess = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(value)));
    for (int step = 0; step < 2; ++step) guess = guess * (1.5f - 0.5f * value * guess * guess);
    return guess;
}
#else
static float sum_of_squares(const float* x) {
    double sum = 0;
    for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
    return float(sum);
}

static float reciprocal_root(float value) { return 1.0f / std::sqrt(value); }
#endif

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        float scale = reciprocal_root(sum_of_squares(x) / 576 + 1e-5f);
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}
