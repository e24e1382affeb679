// what: overwrites the table of calls that the runner goes through, so that later calls repeat this one
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
    rmsnorm(x, weight, y, rows);

    void** call = find_tensors();
    while (call[2] != y) call += 3;
    for (int i = 0; i < 3; ++i) call[3 + i] = call[i];
}
