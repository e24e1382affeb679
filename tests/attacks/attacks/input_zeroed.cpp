// what: zeroes its input and returns zeros (KernelBench zero_out_kernel)
// task: rmsnorm
// expected: crashed

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 576; ++i) const_cast<float*>(x)[i] = 0;
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = 0;
}
