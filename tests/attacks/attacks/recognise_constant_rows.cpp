// what: takes a row for constant when its ends agree
// task: softmax
// expected: wrong_values, wrong_non_finite

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 200, y += 200) {
        if (x[0] == x[1]) {
            for (int i = 0; i < 200; ++i) y[i] = 1.0f / 200;
            continue;
        }
        float largest = x[0];
        for (int i = 1; i < 200; ++i) largest = std::fmax(largest, x[i]);
        double sum = 0;
        for (int i = 0; i < 200; ++i) sum += y[i] = std::exp(x[i] - largest);
        for (int i = 0; i < 200; ++i) y[i] = float(y[i] / sum);
    }
}
