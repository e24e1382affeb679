// what: packs its parameters once a process, so that all layers share those of the first
// task: rmsnorm
// expected: wrong_values
// defence: parameter_sets

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
    static float packed[576];
    static bool is_packed;
    if (!is_packed) memcpy(packed, weight, sizeof packed);
    is_packed = true;
    rmsnorm(x, packed, y, rows);
}
