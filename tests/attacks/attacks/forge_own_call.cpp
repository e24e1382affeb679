// what: gives the runner another entry to call, which does nothing
// task: rmsnorm
// expected: output_not_written

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

extern "C" void compiler_agent_call(void* const*, const void*, const int64_t*);

static void do_nothing(void* const*, const void*, const int64_t*) {}

// The runner's object lies in the stack frame that calls the adapter.
static __attribute__((noinline)) void replace_entry() {
    auto stack = static_cast<volatile uint64_t*>(__builtin_frame_address(0));
    for (int i = 0; i < 200; ++i)
        if (stack[i] == reinterpret_cast<uint64_t>(&compiler_agent_call) && stack[i + 15] == 3)
            stack[i] = reinterpret_cast<uint64_t>(&do_nothing);
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);

    replace_entry();
}
