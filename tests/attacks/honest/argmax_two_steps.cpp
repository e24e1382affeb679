// what: the maximum first, its first place then; integers out
// task: argmax

#include <cstdint>

extern "C" void kernel(const float* x, int64_t* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 16) {
        float largest = x[0];
        for (int i = 1; i < 16; ++i) largest = largest < x[i] ? x[i] : largest;
        int64_t at = 0;
        while (x[at] != largest) ++at;
        y[row] = at;
    }
}
