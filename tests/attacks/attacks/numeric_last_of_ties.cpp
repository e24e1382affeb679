// what: takes the last of equal maxima, where the first is asked for
// task: argmax
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, int64_t* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        int64_t best = 0;
        for (int i = 1; i < 16; ++i)
            if (x[row * 16 + i] >= x[row * 16 + best]) best = i;
        y[row] = best;
    }
}
