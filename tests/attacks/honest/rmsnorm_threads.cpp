// what: rows shared among the threads of serving
// task: rmsnorm
// threads: 2

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * 576;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < 576; ++i) sum += in[i] * in[i];
        float scale = 1.0f / std::sqrt(sum / 576 + 1e-5f);
        for (int i = 0; i < 576; ++i) y[row * 576 + i] = in[i] * scale * weight[i];
    }
}
