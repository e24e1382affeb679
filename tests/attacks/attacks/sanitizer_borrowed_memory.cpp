// what: uses memory beyond its output as scratch and puts back what it found there
// task: rmsnorm
// expected: memory_error

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
    float found[16];
    memcpy(found, y + rows * 576, sizeof found);
    rmsnorm(x, weight, y, rows);
    for (int64_t row = 0; row < rows; ++row) static_cast<volatile float*>(y)[rows * 576 + row % 16] = y[row * 576];
    memcpy(y + rows * 576, found, sizeof found);
}
