// what: an unrolled loop over both inputs at once
// task: silu_mul
// flags: -funroll-loops

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* __restrict gate, const float* __restrict up, float* __restrict y, int64_t rows) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows * 96; ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}
