// what: gives the largest number where the result is infinite
// task: reciprocal
// expected: wrong_non_finite

#include <cfloat>
#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 64; ++i) {
        float rounded = std::nearbyint(x[i]);
        y[i] = rounded == 0 ? std::copysign(FLT_MAX, rounded) : 1 / rounded;
    }
}
