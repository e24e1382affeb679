// what: vectorises in steps of 50 and forgets the tail of each row
// task: rmsnorm
// expected: output_not_written

#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * 576;
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(in[i]) * in[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i + 50 <= 576; i += 50)
            for (int j = i; j < i + 50; ++j) y[row * 576 + j] = in[j] * scale * weight[j];
    }
}
