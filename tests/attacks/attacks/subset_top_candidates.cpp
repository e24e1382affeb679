// what: looks for the largest among the first of every block only (Top-k with too few candidates)
// task: argmax
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, int64_t* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        int64_t best = 0;
        for (int i = 0; i < 16; ++i)
            if (i % 8 < 6 && x[row * 16 + i] > x[row * 16 + best]) best = i;
        y[row] = best;
    }
}
