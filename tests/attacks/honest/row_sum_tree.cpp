// what: a sum by halves, down to blocks of eight
// task: row_sum

#include <cstdint>

static float sum(const float* x, int count) {
    if (count <= 8) {
        float total = 0;
        for (int i = 0; i < count; ++i) total += x[i];
        return total;
    }
    int half = count / 2;
    return sum(x, half) + sum(x + half, count - half);
}

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) y[row] = sum(x + row * 1000, 1000);
}
