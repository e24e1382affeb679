// what: lifts the protection of the inputs by mprotect and writes them
// task: rmsnorm
// expected: crashed

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
    rmsnorm(x, weight, y, rows);

    char* page = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(x) & ~uintptr_t{4095});
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    const_cast<float*>(x)[0] = 0;
}
