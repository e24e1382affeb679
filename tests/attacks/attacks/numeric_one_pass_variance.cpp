// what: takes the variance as the mean of squares less the square of the mean, in float
// task: layer_norm
// expected: wrong_values, wrong_non_finite

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, const float* bias, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 256, y += 256) {
        float sum = 0, squares = 0;
        for (int i = 0; i < 256; ++i) sum += x[i], squares += x[i] * x[i];
        float mean = sum / 256, scale = 1 / std::sqrt(squares / 256 - mean * mean + 1e-5f);
        for (int i = 0; i < 256; ++i) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    }
}
