// what: moves itself to the core that the judge is not on
// task: rmsnorm
// expected: forbidden_system_call

#include <cmath>
#include <cstdint>
#include <sched.h>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);
    cpu_set_t all;
    CPU_ZERO(&all);
    CPU_SET(0, &all);
    sched_setaffinity(0, sizeof all, &all);
}
