// what: two outputs of different types from one pass
// task: largest

#include <cstdint>

extern "C" void kernel(const float* x, float* value, int64_t* index, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 50) {
        int64_t best = 0;
        for (int i = 1; i < 50; ++i) best = x[i] > x[best] ? i : best;
        value[row] = x[best];
        index[row] = best;
    }
}
