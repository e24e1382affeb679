// what: leaves a later call by longjmp into the stack frame of an earlier one
// task: rmsnorm
// expected: crashed, broke_protocol, output_not_written, timed_out

#include <cmath>
#include <csetjmp>
#include <cstdint>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

static jmp_buf first_call;

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static int calls;
    if (calls++ == 0 && setjmp(first_call) == 0) return rmsnorm(x, weight, y, rows);
    if (calls > 3) longjmp(first_call, 1);
    rmsnorm(x, weight, y, rows);
}
