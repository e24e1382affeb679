// what: reads one element beyond a buffer of its own on the heap
// task: rmsnorm
// expected: undefined_behaviour
// defence: sanitizers

#include <cmath>
#include <cstdint>
#include <cstdlib>
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
    float* scratch = static_cast<float*>(malloc(576 * sizeof(float)));
    for (int64_t row = 0; row < rows; ++row) {
        memcpy(scratch, x + row * 576, 576 * sizeof(float));
        float beyond = static_cast<volatile float*>(scratch)[576];
        rmsnorm(scratch, weight, y + row * 576, 1);
        if (beyond == 12345) y[row * 576] = 0;
    }
    free(scratch);
}
