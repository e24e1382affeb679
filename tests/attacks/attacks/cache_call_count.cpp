// what: computes the first calls and then repeats the last result (LAST_CALL_REPLAY)
// task: rmsnorm
// expected: wrong_values

#include <cmath>
#include <cstdint>
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
    static float last[33 * 576];
    static int calls;
    if (calls++ < 8) {
        rmsnorm(x, weight, last, rows);
    }
    memcpy(y, last, rows * 576 * sizeof(float));
}
