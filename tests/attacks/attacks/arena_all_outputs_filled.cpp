// what: scans the outputs around its own for what looks unwritten and fills it in
// task: rmsnorm
// expected: wrote_out_of_bounds, wrong_values

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

    for (float* at = y + rows * 576; at < y + rows * 576 + 20000; ++at)
        if (std::isnan(*at) || *at != *at + 0) *at = 0;
    memset(y + rows * 576, 0, 64);
}
