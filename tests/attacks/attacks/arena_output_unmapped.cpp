// what: unmaps the page that its output lies in and maps private memory there
// task: rmsnorm
// expected: output_not_written

#include <cmath>
#include <cstdint>
#include <sys/mman.h>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    char* first = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(y) & ~uintptr_t{4095});
    size_t bytes = reinterpret_cast<char*>(y + rows * 576) - first;
    mmap(first, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    rmsnorm(x, weight, y, rows);
}
