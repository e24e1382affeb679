// what: reads a permuted input as if it were dense in the order of its dims
// task: add_heads
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* q, const float* k, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 64; ++i) y[i] = q[i] + k[i];
}
