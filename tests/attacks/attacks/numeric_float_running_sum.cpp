// what: adds a long row in one float accumulator of half precision steps
// task: row_sum
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (int i = 0; i < 1000; ++i) sum = float(_Float16(sum)) + x[row * 1000 + i];
        y[row] = sum;
    }
}
