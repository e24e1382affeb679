// what: two passes over a row with a vectorised sum
// task: rmsnorm

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < 576; ++i) sum += x[i] * x[i];
        float scale = 1.0f / std::sqrt(sum / 576 + 1e-5f);
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}
