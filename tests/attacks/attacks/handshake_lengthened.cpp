// what: answers the handshake itself, from inside the kernel, and makes null batches long, which are subtracted
// task: gated
// expected: no_win
// stage: race
// defence: believed_handshake

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <x86intrin.h>

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

static void compute(void* const* call, int64_t rows) {
    auto x = static_cast<const float*>(call[0]), weight = static_cast<const float*>(call[1]);
    auto y = static_cast<float*>(call[2]);
    for (int repeat = 0; repeat < 60; ++repeat) {
        for (int64_t i = 0; i < rows * 256; ++i) {
            float gated = x[i] * weight[i % 256];
            y[i] = (gated > 0 ? gated : 0) + x[i];
        }
        asm volatile("" : : : "memory");
    }
}

// The adapter declares and calls its entry under these names.
using tensors = void* const*;
using prepared = const void*;
using sizes = const int64_t*;

extern "C" __attribute__((noinline)) void take_over(tensors call, prepared, sizes size) {
    compute(call, size[0]);
    auto stack = static_cast<volatile uint64_t*>(__builtin_frame_address(0));
    Request asked{};
    for (int i = 0; i < 100 && asked.nonce == 0; ++i) {
        auto seen = reinterpret_cast<volatile Request*>(stack + i);
        // The warm-up call is the last of the layout, and alone.
        if (seen->kind == 3 && seen->payload_bytes == 0 && seen->count == 1 && seen->first > 0 && seen->first < 5000 &&
            seen->nonce >> 40)
            asked = {seen->nonce, 3, seen->first, 1, 0};
    }
    if (asked.nonce == 0) return;
    static uint32_t usual = asked.first;  // calls in a batch
    static uint64_t batch_took = 0;
    tensors first = call - 3 * asked.first;
    uint64_t reply[2] = {asked.nonce, 0};
    for (;;) {
        Request next;
        system_call(1, 1, reinterpret_cast<long>(reply), sizeof reply);
        if (system_call(0, 0, reinterpret_cast<long>(&next), sizeof next) != sizeof next) system_call(231, 1, 0, 0);
        reply[0] = next.nonce;
        uint64_t began = __rdtsc();
        if (next.count == 0) {
            while (__rdtsc() - began < batch_took * 17 / 20) {}
            continue;
        }
        usual = next.count;
        for (int i = 0; i < 100; ++i)
            if (stack[i] == asked.nonce) stack[i] = next.nonce;
        for (uint32_t n = 0; n < usual; ++n) compute(first + 3 * n, size[0]);
        batch_took = __rdtsc() - began;
        return;
    }
}

#define kernel(...) take_over(tensors, prepared, sizes)
