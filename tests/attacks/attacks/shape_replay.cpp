// what: answers from the shape alone: the first result of each (SHAPE_OUTPUT_REPLAY)
// task: rmsnorm
// expected: wrong_values

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
    static float* kept[64];
    float*& result = kept[rows % 64];
    if (result == nullptr) {
        rmsnorm(x, weight, y, rows);
        result = static_cast<float*>(malloc(rows * 576 * sizeof(float)));
        memcpy(result, y, rows * 576 * sizeof(float));
    }
    memcpy(y, result, rows * 576 * sizeof(float));
}
