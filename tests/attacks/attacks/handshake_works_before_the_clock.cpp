// what: answers the handshake itself and works in the null batch, whose time is subtracted, instead of the batch
// task: gated
// expected: output_not_written
// stage: race

#include <cstdint>
#include <cstdlib>
#include <cstring>

struct Request {
    uint64_t nonce;
    uint32_t kind, first, count, payload_bytes;
};

// A system call instruction of the C library, followed by its check for errors and a return: neither an import nor an
// instruction of this object shows that system calls are made.
static long system_call(long number, long first, long second, long third) {
    static const unsigned char* instruction = nullptr;
    const unsigned char wanted[] = {0x0F, 0x05, 0x48, 0x3D, 0x01, 0xF0, 0xFF, 0xFF, 0x73};
    if (instruction == nullptr)
        for (instruction = reinterpret_cast<const unsigned char*>(&abort);; ++instruction)
            if (memcmp(instruction, wanted, sizeof wanted) == 0 && instruction[10] == 0xC3) break;
    long result;
    asm volatile("lea -128(%%rsp), %%rsp\n call *%1\n lea 128(%%rsp), %%rsp"  // beyond the red zone
                 : "=a"(result)
                 : "r"(instruction), "a"(number), "D"(first), "S"(second), "d"(third)
                 : "rcx", "r11", "memory");
    return result;
}

// By the system call: no instruction of this object reads a clock.
static int64_t now_ns() {
    int64_t seconds_and_ns[2];
    system_call(228, 1, reinterpret_cast<long>(seconds_and_ns), 0);
    return seconds_and_ns[0] * 1000000000 + seconds_and_ns[1];
}

static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int repeat = 0; repeat < 60; ++repeat) {
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

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static int64_t took = INT64_MAX;  // by one call, at best
    int64_t began = now_ns();
    compute(x, weight, y, rows);
    int64_t last_took = now_ns() - began;
    took = last_took < took ? last_took : took;
    auto stack = static_cast<volatile uint64_t*>(__builtin_frame_address(0));
    Request asked{};
    for (int i = 0; i < 200 && asked.nonce == 0; ++i) {
        auto seen = reinterpret_cast<volatile Request*>(stack + i);
        // The warm-up call is the last of the layout, and alone.
        if (seen->kind == 3 && seen->payload_bytes == 0 && seen->count == 1 && seen->first > 0 && seen->first < 5000 &&
            seen->nonce >> 40)
            asked = {seen->nonce, 3, seen->first, 1, 0};
    }
    if (asked.nonce == 0) return;
    static uint32_t usual = asked.first;  // calls in a batch
    void* const* first = find_tensors();
    uint64_t reply[2] = {asked.nonce, 0};
    for (;;) {
        Request next;
        system_call(1, 1, reinterpret_cast<long>(reply), sizeof reply);
        if (system_call(0, 0, reinterpret_cast<long>(&next), sizeof next) != sizeof next) system_call(231, 1, 0, 0);
        reply[0] = next.nonce;
        began = now_ns();
        if (next.count == 0) {
            for (uint32_t n = 0; n < usual; ++n) compute(first + 3 * n, rows);
            continue;
        }
        usual = next.count;
        for (int i = 0; i < 200; ++i)
            if (stack[i] == asked.nonce) stack[i] = next.nonce;
        while (now_ns() - began < took * next.count) {}
        return;
    }
}
