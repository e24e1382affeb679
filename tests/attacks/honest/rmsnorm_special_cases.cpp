// what: a path of its own for one row and a general one for the rest
// task: rmsnorm

#include <cmath>
#include <cstdint>

template <int ROWS>
static void normalise(const float* x, const float* weight, float* y) {
    double sums[ROWS] = {};
    for (int row = 0; row < ROWS; ++row)
        for (int i = 0; i < 576; ++i) sums[row] += double(x[row * 576 + i]) * x[row * 576 + i];
    for (int row = 0; row < ROWS; ++row) {
        float scale = float(1 / std::sqrt(sums[row] / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[row * 576 + i] = x[row * 576 + i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    if (rows == 1) return normalise<1>(x, weight, y);
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) normalise<4>(x + row * 576, weight, y + row * 576);
    for (; row < rows; ++row) normalise<1>(x + row * 576, weight, y + row * 576);
}
