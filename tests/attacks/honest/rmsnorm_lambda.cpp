// what: templates and lambdas, the width known at compile time
// task: rmsnorm

#include <array>
#include <cmath>
#include <cstdint>

template <int WIDTH, typename Visit>
static void for_each_column(Visit visit) {
    for (int column = 0; column < WIDTH; ++column) visit(column);
}

template <int WIDTH>
static void normalise(const float* x, const float* weight, float* y) {
    std::array<double, 4> sums{};
    for_each_column<WIDTH>([&](int i) { sums[i % 4] += double(x[i]) * x[i]; });
    float scale = float(1 / std::sqrt((sums[0] + sums[1] + sums[2] + sums[3]) / WIDTH + 1e-5));
    for_each_column<WIDTH>([&](int i) { y[i] = x[i] * scale * weight[i]; });
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) normalise<576>(x + row * 576, weight, y + row * 576);
}
