// what: keeps using its scratch after it was freed
// task: rmsnorm
// expected: memory_error

#include <cmath>
#include <cstdint>
#include <cstdlib>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    float* scratch = static_cast<float*>(malloc(576 * sizeof(float)));
    free(scratch);
    static_cast<volatile float*>(scratch)[500] = 1;
    rmsnorm(x, weight, y, rows);
}
