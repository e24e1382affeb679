// what: centred rows in thread-local scratch
// task: layer_norm
// threads: 2

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, const float* bias, float* y, int64_t rows) {
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        static thread_local double centred[256];
        const float* in = x + row * 256;
        double sum = 0, squares = 0;
        for (int i = 0; i < 256; ++i) sum += in[i];
        for (int i = 0; i < 256; ++i) {
            centred[i] = in[i] - sum / 256;
            squares += centred[i] * centred[i];
        }
        double scale = 1 / std::sqrt(squares / 256 + 1e-5);
        for (int i = 0; i < 256; ++i) y[row * 256 + i] = float(centred[i] * scale) * weight[i] + bias[i];
    }
}
