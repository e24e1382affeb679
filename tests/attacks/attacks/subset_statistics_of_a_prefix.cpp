// what: takes the mean square of the first half of a row for that of all (input-structure truncation)
// task: rmsnorm
// expected: wrong_values

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 288; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 288 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}
