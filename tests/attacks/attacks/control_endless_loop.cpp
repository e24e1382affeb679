// what: loops for ever at the hidden shape
// task: rmsnorm
// expected: timed_out

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
    rmsnorm(x, weight, y, rows);

    bool is_shown = rows == 1 || rows == 8 || rows == 33;
    for (volatile long i = 0; !is_shown; i = i + 1) {}
}
