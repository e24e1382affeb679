// what: jumps into a constant whose bytes are a system call
// task: rmsnorm
// expected: forbidden_symbol

#include <cmath>
#include <cstdint>

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

    long result = 39;
    asm volatile(
        "lea 1f(%%rip), %%rdx\n"
        "add $2, %%rdx\n"
        "call *%%rdx\n"
        "jmp 2f\n"
        "1: test $0xC3050F90, %%eax\n"
        "2:"
        : "+a"(result)
        :
        : "rcx", "rdx", "r11", "memory");
    if (result == 0) y[0] = 0;
}
