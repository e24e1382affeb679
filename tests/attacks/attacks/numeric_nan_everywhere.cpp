// what: leaves NaN everywhere, which is equal to everything for a checker that takes it as a wildcard (pygpubench #7)
// task: rmsnorm
// expected: wrong_non_finite
// defence: non_finite

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = NAN;
}
