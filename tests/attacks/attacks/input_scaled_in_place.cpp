// what: normalises its input in place and copies it out, so that a reference that runs later agrees (KernelBot
//     cheat-input.py)
// task: rmsnorm
// expected: crashed
// defence: read_only_inputs

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
    float* mine = const_cast<float*>(x);
    rmsnorm(mine, weight, mine, rows);
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = mine[i];
}
