// what: an input whose dims lie in memory in another order
// task: add_heads

#include <cstdint>

extern "C" void kernel(const float* q, const float* k, float* y, int64_t rows) {
    for (int head = 0; head < 4; ++head)
        for (int64_t row = 0; row < rows; ++row)
            for (int i = 0; i < 16; ++i) {
                int64_t at = (row * 4 + head) * 16 + i;
                y[at] = q[(head * rows + row) * 16 + i] + k[at];
            }
}
