// what: keeps results in a file for the next process (file replay, RK #162)
// task: rmsnorm
// expected: forbidden_system_call

#include <cmath>
#include <cstdint>
#include <fcntl.h>
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

    int fd = open("/scratch/results", O_CREAT | O_RDWR, 0644);
    if (write(fd, y, 64) < 0) y[0] = 0;
}
