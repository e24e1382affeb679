// what: a state updated where it lies, and an output from it
// task: accumulate

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* total, float* peak, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 64, total += 64) {
        float largest = 0;
        for (int i = 0; i < 64; ++i) {
            total[i] += x[i];
            largest = std::fmax(largest, std::fabs(total[i]));
        }
        peak[row] = largest;
    }
}
