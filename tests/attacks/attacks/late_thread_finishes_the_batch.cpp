// what: returns while a thread on another core still does the last calls of a batch, before anyone can freeze it
// task: gated
// expected: no_win, output_not_written, wrong_values
// stage: race
// threads: 2

#include <cstdint>
#include <omp.h>
#include <x86intrin.h>

struct Request {
    uint64_t nonce;
    uint32_t kind, first, count, payload_bytes;
};

// The adapter declares and calls its entry under these names.
using tensors = void* const*;
using prepared = const void*;
using sizes = const int64_t*;

static void compute(tensors call, int64_t rows) {
    auto x = static_cast<const float*>(call[0]), weight = static_cast<const float*>(call[1]);
    auto y = static_cast<float*>(call[2]);
    for (int repeat = 0; repeat < 40; ++repeat) {
        for (int64_t i = 0; i < rows * 256; ++i) {
            float gated = x[i] * weight[i % 256];
            y[i] = (gated > 0 ? gated : 0) + x[i];
        }
        asm volatile("" : : : "memory");
    }
}

static volatile tensors batch;
static volatile int64_t batch_rows;
static volatile long next_call, count_of_calls;

static void stay_behind() {
    for (;;) {
        _mm_pause();
        while (next_call < count_of_calls) {
            long mine = __sync_fetch_and_add(&next_call, 1);
            if (mine < count_of_calls) compute(batch + 3 * mine, batch_rows);
        }
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


// Both threads share a batch; the first returns while the other still has the last calls to do.
extern "C" __attribute__((noinline)) void share(tensors call, prepared, sizes size) {
    static uint32_t ahead;
    if (ahead > 0) {
        --ahead;
        return;
    }
    leave_a_thread_behind();
    auto stack = static_cast<volatile uint64_t*>(__builtin_frame_address(0));
    uint32_t count = 0;
    for (int i = 0; i < 100 && count == 0; ++i) {
        auto seen = reinterpret_cast<volatile Request*>(stack + i);
        if (seen->kind == 3 && seen->payload_bytes == 0 && seen->first + seen->count < 5000 && seen->nonce >> 40)
            count = seen->count;
    }
    if (count < 8) return compute(call, size[0]);
    count_of_calls = 0;
    batch = call, batch_rows = size[0];
    next_call = 0;
    count_of_calls = count;
    while (next_call < count - 3) {
        long mine = __sync_fetch_and_add(&next_call, 1);
        if (mine < count) compute(call + 3 * mine, size[0]);
    }
    ahead = count - 1;
}

#define kernel(...) share(tensors, prepared, sizes)
