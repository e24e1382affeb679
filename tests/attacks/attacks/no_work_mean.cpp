// what: fills every row with the mean that a softmax always has (KernelBench PR #108)
// task: softmax
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float*, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 200; ++i) y[i] = 1.0f / 200;
}
