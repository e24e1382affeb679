// what: recurses until the stack ends
// task: rmsnorm
// expected: crashed

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

static int descend(volatile int depth) {
    volatile char frame[4096];
    frame[depth % 4096] = 1;
    return depth < 1 << 30 ? descend(depth + 1) + frame[0] : 0;
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);
    y[1] += descend(0) * 0;
}
