// what: waits when it was not called for a while, so that only batches are fast
// task: gated_many
// expected: amortised, no_win
// stage: race

#include <cstdint>
#include <cstdlib>
#include <cstring>

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
    for (int64_t i = 0; i < rows * 256; ++i) {
        float gated = x[i] * weight[i % 256];
        y[i] = (gated > 0 ? gated : 0) + x[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static int64_t last;
    int64_t began = now_ns(), now = began;
    while (began - last > 10000 && now - began < 30000) now = now_ns();
    last = now;
    compute(x, weight, y, rows);
}
