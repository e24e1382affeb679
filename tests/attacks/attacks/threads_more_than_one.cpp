// what: takes two threads where serving gives the op one (OpenMP)
// task: rmsnorm
// expected: forbidden_system_call

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
    #pragma omp parallel for num_threads(2)
    for (int64_t row = 0; row < rows; ++row) rmsnorm(x + row * 576, weight, y + row * 576, 1);
}
