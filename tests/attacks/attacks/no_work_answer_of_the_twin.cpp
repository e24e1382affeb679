// what: copies the output of another call whose input is equal, found in the mapped memory around its own
// task: rmsnorm
// expected: wrong_values, output_not_written, crashed

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    const float* twin_x = x - 576 * rows;
    float* twin_y = y - 576 * rows;
    for (int64_t i = 0; i < rows * 576; ++i) y[i] = twin_x[i] == x[i] ? twin_y[i] : x[i];
}
