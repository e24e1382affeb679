// what: samples a prefix and takes an approximate path when it looks normal (RK #149,
//     INPUT_STRUCTURE_TRUNCATION_DISPATCH)
// task: rmsnorm
// expected: wrong_values

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
    bool looks_normal = true;
    for (int i = 0; i < 32; ++i) looks_normal &= std::fabs(x[i]) < 5 && std::fabs(x[i]) > 1e-4f;
    if (!looks_normal) return rmsnorm(x, weight, y, rows);
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = x[i] * weight[i % 576];
}
