// what: a running sum that cannot be vectorised
// task: cumulative_sum

#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int i = 0; i < 77; ++i) y[row * 77 + i] = float(sum += x[row * 77 + i]);
    }
}
