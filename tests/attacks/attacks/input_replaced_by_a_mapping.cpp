// what: maps memory of its own over the inputs and zeroes it, to have the reference agree
// task: rmsnorm
// expected: wrong_values

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
    char* first = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(x) & ~uintptr_t{4095});
    mmap(first, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    rmsnorm(x, weight, y, rows);
}
