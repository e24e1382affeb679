// what: overwrites the table of calls that the runner goes through, so that later calls repeat this one
// task: rmsnorm
// expected: output_not_written

#include <cmath>
#include <cstdint>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

// The adapter declares and calls it under these names.
using tensors = void* const*;
using prepared = const void*;
using sizes = const int64_t*;

extern "C" void repeat(tensors call, prepared, sizes size) {
    rmsnorm((const float*)call[0], (const float*)call[1], (float*)call[2], size[0]);
    void** next = const_cast<void**>(call) + 3;
    for (int i = 0; i < 3; ++i) next[i] = call[i];
}
#define kernel(...) repeat(tensors, prepared, sizes)
