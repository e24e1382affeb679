// what: multiplies and forgets to transpose
// task: transpose
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 16 * 24; ++i) y[i] = x[i] * 2;
}
