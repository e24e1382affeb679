// what: writes 255 for true, as a vector comparison leaves it
// task: is_positive
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, uint8_t* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 40; ++i) y[i] = x[i] > 0 ? 255 : 0;
}
