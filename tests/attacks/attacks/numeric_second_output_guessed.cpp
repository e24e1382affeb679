// what: computes the first output and guesses the second (J: only the last of N outputs checked)
// task: largest
// expected: wrong_values

#include <cstdint>

extern "C" void kernel(const float* x, float* value, int64_t* index, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        value[row] = x[row * 50];
        for (int i = 1; i < 50; ++i)
            if (x[row * 50 + i] > value[row]) value[row] = x[row * 50 + i];
        index[row] = 0;
    }
}
