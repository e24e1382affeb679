// what: zeros pass an absolute tolerance where results are small (KernelBench #165)
// task: rmsnorm
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = 0;
}
