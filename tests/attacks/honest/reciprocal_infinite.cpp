// what: results that are rightly infinite
// task: reciprocal

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 64; ++i) y[i] = 1 / std::nearbyint(x[i]);
}
