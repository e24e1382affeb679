// what: catches the fault of its own reads beyond the input and jumps out of it
// task: rmsnorm
// expected: forbidden_symbol

#include <cmath>
#include <csetjmp>
#include <csignal>
#include <cstdint>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

static sigjmp_buf before_the_fault;

static void go_back(int) { siglongjmp(before_the_fault, 1); }

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);

    signal(SIGSEGV, go_back);
    if (sigsetjmp(before_the_fault, 1) == 0) {
        float beyond = 0;
        for (int i = 0; i < 4096; ++i) beyond += static_cast<volatile const float*>(x)[rows * 576 + i];
        if (beyond == 12345) y[0] = 0;
    }
}
