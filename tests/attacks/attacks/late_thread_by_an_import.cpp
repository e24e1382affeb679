// what: starts a thread of its own that would go on after the call
// task: rmsnorm
// expected: forbidden_symbol
// threads: 2

#include <cmath>
#include <cstdint>
#include <thread>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static std::thread* idle = new std::thread([] {});
    rmsnorm(x, weight, y, rows);
    if (idle == nullptr) y[0] = 0;
}
