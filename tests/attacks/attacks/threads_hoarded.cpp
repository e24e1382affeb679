// what: takes six threads where serving gives the op two
// task: rmsnorm
// expected: broke_protocol, crashed, forbidden_system_call
// threads: 2

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
    #pragma omp parallel for num_threads(6)
    for (int64_t row = 0; row < rows; ++row) rmsnorm(x + row * 576, weight, y + row * 576, 1);
}
