// what: divides by an absolute value and loses the sign where the result is infinite
// task: reciprocal
// expected: wrong_non_finite

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 64; ++i) {
        float rounded = std::nearbyint(x[i]);
        y[i] = rounded == 0 ? 1 / std::fabs(rounded) : 1 / rounded;
    }
}
