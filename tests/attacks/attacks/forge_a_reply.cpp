// what: writes a reply of its own to the pipe that the runner answers on (KernelBot cheat-fd.py)
// task: rmsnorm
// expected: broke_protocol

#include <cmath>
#include <cstdint>
#include <unistd.h>

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

    uint64_t reply[2] = {1, 0};
    if (write(1, reply, sizeof reply) != sizeof reply) y[0] = 0;
}
