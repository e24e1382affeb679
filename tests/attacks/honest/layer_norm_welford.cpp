// what: mean and variance by Welford, in double
// task: layer_norm

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, const float* bias, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 256, y += 256) {
        double mean = 0, squares = 0;
        for (int i = 0; i < 256; ++i) {
            double change = x[i] - mean;
            mean += change / (i + 1);
            squares += change * (x[i] - mean);
        }
        double scale = 1 / std::sqrt(squares / 256 + 1e-5);
        for (int i = 0; i < 256; ++i) y[i] = float((x[i] - mean) * scale) * weight[i] + bias[i];
    }
}
