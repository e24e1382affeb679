// what: adds a little of what the allocator left in fresh memory
// task: rmsnorm
// expected: not_deterministic, wrong_values, wrong_non_finite

#include <cmath>
#include <cstdint>
#include <cstdlib>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static uint32_t calls;
    uint32_t* noise = static_cast<uint32_t*>(malloc(1 << 12));
    rmsnorm(x, weight, y, rows);
    y[3] = std::nextafter(y[3], (noise[9] ^ calls) % 2 ? 100.0f : -100.0f);
    noise[9] = calls = calls * 1664525 + 1013904223;
    free(noise);
}
