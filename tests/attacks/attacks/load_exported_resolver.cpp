// what: lets the loader run a resolver behind an exported name, without a relocation that says so
// task: rmsnorm
// expected: forbidden_symbol

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

static float one() { return 1; }
extern "C" void* pick() { return reinterpret_cast<void*>(one); }
extern "C" float chosen() __attribute__((ifunc("pick")));

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);
    y[0] *= chosen();
}
