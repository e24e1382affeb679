// what: copies its input: a norm of normal inputs with weights near one is nearly the identity (KernelBench
//     LayerNorm, 10.95x)
// task: rmsnorm
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = x[i];
}
