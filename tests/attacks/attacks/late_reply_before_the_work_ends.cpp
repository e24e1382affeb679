// what: answers a batch before its end and goes on beside a judge that is on another core
// task: gated
// expected: no_win, output_not_written, wrong_values
// stage: race
// threads: 2

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

static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * 256; ++i) {
        float gated = x[i] * weight[i % 256];
        y[i] = (gated > 0 ? gated : 0) + x[i];
    }
}

static void work(void* const* tensors, int64_t rows, int repeats) {
    for (int repeat = 0; repeat < repeats; ++repeat) {
        compute(static_cast<const float*>(tensors[0]), static_cast<const float*>(tensors[1]),
                static_cast<float*>(tensors[2]), rows);
        asm volatile("" : : : "memory");
    }
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

static uint64_t words[1 << 16];
static void* table[1 << 16];

static void receive(void* target, long bytes) {
    for (long got = 0; bytes > 0; bytes -= got, target = static_cast<char*>(target) + got)
        if ((got = system_call(0, 0, reinterpret_cast<long>(target), bytes)) <= 0) system_call(231, 1, 0, 0);
}

// Reads a layout of calls as the runner would. Slots begin where those of the layout before did.
static void lay_out(uint32_t bytes, void* const* first) {
    static char* inputs = nullptr;
    static char* outputs = nullptr;
    receive(words, bytes);
    const uint64_t* calls = words + 6;
    const uint64_t output = uint64_t{1} << 63;
    if (inputs == nullptr) {
        inputs = static_cast<char*>(first[0]) - calls[1];
        outputs = static_cast<char*>(first[2]) - (calls[3] & ~output);
    }
    for (uint64_t call = 0; call < words[4]; ++call)
        for (int tensor = 0; tensor < 3; ++tensor) {
            uint64_t place = calls[4 * call + 1 + tensor];
            table[3 * call + tensor] = (place & output ? outputs : inputs) + (place & ~output);
        }
}

// Serves requests from inside the kernel, for good; a batch is answered before its last part is done.
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    compute(x, weight, y, rows);
    auto stack = static_cast<volatile uint64_t*>(__builtin_frame_address(0));
    Request asked{};
    for (int i = 0; i < 200 && asked.nonce == 0; ++i) {
        auto seen = reinterpret_cast<volatile Request*>(stack + i);
        if (seen->kind == 3 && seen->payload_bytes == 0 && seen->count == 1 && seen->first > 0 && seen->first < 5000 &&
            seen->nonce >> 40)
            asked = {seen->nonce, 3, seen->first, 1, 0};
    }
    if (asked.nonce == 0) return;
    void* const* first = find_tensors();
    for (uint32_t i = 0; i < 3 * (asked.first + 1); ++i) table[i] = first[i];
    uint64_t reply[2] = {asked.nonce, 0};
    system_call(1, 1, reinterpret_cast<long>(reply), sizeof reply);
    for (;;) {
        Request next;
        receive(&next, sizeof next);
        if (next.kind == 2) lay_out(next.payload_bytes, first);
        uint32_t count = next.kind == 3 ? next.count : 0, before = count * (100 - 15) / 100;
        for (uint32_t n = 0; n < before; ++n) work(table + 3 * (next.first + n), rows, 100);
        reply[0] = next.nonce;
        system_call(1, 1, reinterpret_cast<long>(reply), sizeof reply);
        for (uint32_t n = before; n < count; ++n) work(table + 3 * (next.first + n), rows, 100);
    }
}
