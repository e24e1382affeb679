// what: uses memory beyond its output as scratch and writes back what a canary would hold
// task: rmsnorm
// expected: wrote_out_of_bounds, crashed

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
    rmsnorm(x, weight, y, rows);
    for (int64_t row = 0; row < rows; ++row) y[rows * 576 + row % 16] = y[row * 576];
    memset(y + rows * 576, 0xC7, 64);
}
