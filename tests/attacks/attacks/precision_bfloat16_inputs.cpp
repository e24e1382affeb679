// what: rounds its inputs to bfloat16 and computes as usual: a tolerance of 1e-2 does not see it (KernelBench v3,
//     10x)
// task: rmsnorm
// expected: wrong_values
// defence: derived_bound

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
    for (int64_t row = 0; row < rows; ++row) {
        float rounded[576];
        for (int i = 0; i < 576; ++i) {
            uint32_t bits;
            memcpy(&bits, &x[row * 576 + i], sizeof bits);
            bits = (bits + 0x8000) & 0xFFFF0000;
            memcpy(&rounded[i], &bits, sizeof bits);
        }
        rmsnorm(rounded, weight, y + row * 576, 1);
    }
}
