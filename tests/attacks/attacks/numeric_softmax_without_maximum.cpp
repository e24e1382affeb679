// what: drops the subtraction of the maximum, fine on small logits (dos-kernel fixture)
// task: softmax
// expected: wrong_non_finite
// defence: distributions

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 200, y += 200) {
        double sum = 0;
        for (int i = 0; i < 200; ++i) sum += y[i] = std::exp(x[i]);
        for (int i = 0; i < 200; ++i) y[i] = float(y[i] / sum);
    }
}
