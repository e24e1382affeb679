// what: makes a system call by an instruction of the C library that it searches for, so that nothing of its own shows
//     it
// task: rmsnorm
// expected: forbidden_system_call
// defence: system_call_filter

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

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

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);

    const long local = 1, stream = 1;
    if (system_call(41, local, stream, 0) < 0) y[0] = 0;
}
