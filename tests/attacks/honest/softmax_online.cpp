// what: maximum and sum in one pass, rescaled where the maximum grows
// task: softmax

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 200, y += 200) {
        float largest = x[0];
        double sum = 1;
        for (int i = 1; i < 200; ++i) {
            if (x[i] > largest) {
                sum *= std::exp(double(largest) - x[i]);
                largest = x[i];
            }
            sum += std::exp(double(x[i]) - largest);
        }
        float scale = float(1 / sum);
        for (int i = 0; i < 200; ++i) y[i] = std::exp(x[i] - largest) * scale;
    }
}
