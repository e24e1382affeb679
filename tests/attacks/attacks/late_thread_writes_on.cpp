// what: leaves a thread behind that overwrites results that were right
// task: rmsnorm
// expected: output_changed_after_return, wrong_values, not_deterministic
// threads: 2

#include <cmath>
#include <cstdint>
#include <thread>

static float* volatile last;

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

static void spoil() {
    for (;;) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        last[0] = 0;
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);
    last = y;
    static std::thread* spoiler = new std::thread(spoil);
    if (spoiler == nullptr) y[0] = 0;
}
