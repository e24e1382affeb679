// what: reads the program that runs it and whatever else lies in /scratch
// task: rmsnorm
// expected: forbidden_symbol

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

    char text[4096];
    int fd = open("/scratch/cpp_runner", O_RDONLY);
    if (read(fd, text, sizeof text) < 0) y[0] = 0;
}
