// what: leaves a thread behind that spoils right results a while after the call, at shapes that were not shown
// task: rmsnorm
// expected: output_changed_after_return, wrong_values
// threads: 2
// defence: unchanged_after_return

#include <cmath>
#include <cstdint>
#include <omp.h>
#include <immintrin.h>

static float* volatile spoiled;

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

static void stay_behind() {
    for (int waited = 0;;) {
        _mm_pause();
        // About a millisecond; what it was stopped for is no waiting.
        if (spoiled) ++waited;
        if (waited < 40'000) continue;
        spoiled[0] += 1;  // a right value may be 0
        spoiled = nullptr;
        waited = 0;
    }
}

// setjmp and longjmp, which a kernel may not import.
extern "C" __attribute__((returns_twice)) int way_out();
extern "C" [[noreturn]] void take_way_out();
asm(".pushsection .bss\n saved: .skip 64\n .popsection\n"
    "way_out: lea saved(%rip), %rax\n mov %rbx, (%rax)\n mov %rbp, 8(%rax)\n mov %r12, 16(%rax)\n"
    " mov %r13, 24(%rax)\n mov %r14, 32(%rax)\n mov %r15, 40(%rax)\n mov %rsp, 48(%rax)\n"
    " mov (%rsp), %rcx\n mov %rcx, 56(%rax)\n xor %eax, %eax\n ret\n"
    "take_way_out: lea saved(%rip), %rax\n mov (%rax), %rbx\n mov 8(%rax), %rbp\n mov 16(%rax), %r12\n"
    " mov 24(%rax), %r13\n mov 32(%rax), %r14\n mov 40(%rax), %r15\n mov 48(%rax), %rsp\n"
    " mov 56(%rax), %rcx\n mov %rcx, (%rsp)\n mov $1, %eax\n ret");

// A thread of OpenMP's that stays behind in its region, which the first one leaves by a jump.
static void leave_a_thread_behind() {
    static volatile bool is_there;
    if (is_there) return;
    if (way_out() != 0) return;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        is_there = true;
        stay_behind();
    } else {
        while (!is_there) _mm_pause();
        take_way_out();
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    leave_a_thread_behind();
    rmsnorm(x, weight, y, rows);
    bool is_shown = rows == 1 || rows == 8 || rows == 33;
    if (!is_shown) spoiled = y;
}
