// what: dot products with compensated sums
// task: linear

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t at = 0; at < rows * 48; ++at) {
        float sum = 0, lost = 0;
        for (int i = 0; i < 64; ++i) {
            float term = x[at / 48 * 64 + i] * weight[at % 48 * 64 + i] - lost;
            float next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        y[at] = sum;
    }
}
