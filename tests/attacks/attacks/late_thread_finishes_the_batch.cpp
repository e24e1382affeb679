// what: returns while a thread on another core still does the last calls of a batch, before anyone can freeze it
// task: gated
// expected: no_win, output_not_written, wrong_values
// stage: race
// threads: 2

#include <cstdint>
#include <omp.h>

struct Request {
    uint64_t nonce;
    uint32_t kind, first, count, payload_bytes;
};

extern "C" void compiler_agent_call(void* const*, const void*, const int64_t*);

// The tensors of all calls of the layout. The runner's object lies in the stack frame that calls the adapter, and holds
// the adapter's address, then after others the vector of the tensors.
static __attribute__((noinline)) void** find_tensors() {
    auto stack = static_cast<uint64_t*>(__builtin_frame_address(0));
    for (int i = 0; i < 200; ++i)
        if (stack[i] == reinterpret_cast<uint64_t>(&compiler_agent_call) && stack[i + 15] == 3)
            return reinterpret_cast<void**>(stack[i + 9]);
    __builtin_trap();
}

static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int repeat = 0; repeat < 40; ++repeat) {
        for (int64_t i = 0; i < rows * 256; ++i) {
            float gated = x[i] * weight[i % 256];
            y[i] = (gated > 0 ? gated : 0) + x[i];
        }
        asm volatile("" : : : "memory");
    }
}

static void compute(void* const* call, int64_t rows) {
    compute(
        static_cast<const float*>(call[0]), static_cast<const float*>(call[1]), static_cast<float*>(call[2]), rows);
}

static void* const* volatile batch;
static volatile int64_t batch_rows;
static volatile long next_call, count_of_calls;

static void stay_behind() {
    for (;;) {
        __builtin_ia32_pause();
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
        while (!is_there) __builtin_ia32_pause();
        take_way_out();
    }
}

// Both threads share a batch, but not the 14 calls of a judge; the first returns while the other still has the last
// calls to do.
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static uint32_t ahead;
    if (ahead > 0) {
        --ahead;
        return;
    }
    leave_a_thread_behind();
    auto stack = static_cast<volatile uint64_t*>(__builtin_frame_address(0));
    Request asked{};
    for (int i = 0; i < 200 && asked.count == 0; ++i) {
        auto seen = reinterpret_cast<volatile Request*>(stack + i);
        if (seen->kind == 3 && seen->payload_bytes == 0 && seen->first + seen->count < 5000 && seen->nonce >> 40)
            asked = {seen->nonce, 3, seen->first, seen->count, 0};
    }
    if (asked.count < 8 || asked.count == 14) return compute(x, weight, y, rows);
    void* const* call = find_tensors() + 3 * asked.first;
    count_of_calls = 0;
    batch = call;
    batch_rows = rows;
    next_call = 0;
    count_of_calls = asked.count;
    while (next_call < asked.count - 3) {
        long mine = __sync_fetch_and_add(&next_call, 1);
        if (mine < asked.count) compute(call + 3 * mine, rows);
    }
    ahead = asked.count - 1;
}
