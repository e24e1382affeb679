// what: scratch that is allocated when it is first needed and kept
// task: linear

#include <cstdint>
#include <cstdlib>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static double* sums = nullptr;
    static int64_t capacity = 0;
    if (capacity < rows) {
        free(sums);
        capacity = rows;
        sums = static_cast<double*>(malloc(capacity * 48 * sizeof(double)));
    }
    for (int64_t at = 0; at < rows * 48; ++at) sums[at] = 0;
    for (int i = 0; i < 64; ++i)
        for (int64_t at = 0; at < rows * 48; ++at) sums[at] += double(x[at / 48 * 64 + i]) * weight[at % 48 * 64 + i];
    for (int64_t at = 0; at < rows * 48; ++at) y[at] = float(sums[at]);
}
