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

static void repeat(void* const* tensors, const int64_t* sizes) {
    rmsnorm((const float*)tensors[0], (const float*)tensors[1], (float*)tensors[2], sizes[0]);
    void** next = const_cast<void**>(tensors) + 3;
    for (int i = 0; i < 3; ++i) next[i] = tensors[i];
}
#define kernel(...) repeat(tensors, sizes)
