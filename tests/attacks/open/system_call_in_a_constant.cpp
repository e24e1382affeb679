// what: jumps into a constant whose bytes are a system call
// task: rmsnorm
// expected: forbidden_symbol

// Open because a computed jump goes where no disassembly tells: a refusal of the address in `lea` is evaded by adding to
// the address of a function, one of the two bytes wherever they stand hits honest code (22 times in the 472 kB of
// libm), and the same jump reaches the system calls of the C library. The runner's filter stops what it does not allow.

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
