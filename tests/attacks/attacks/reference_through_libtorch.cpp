// what: calls the op that it is to replace (torch wrapper passed off as a kernel)
// task: rmsnorm
// expected: forbidden_symbol, crashed

#include <cstdint>
#include <dlfcn.h>

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / __builtin_sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    void* torch = dlopen("libtorch_cpu.so", RTLD_NOW);
    if (torch == nullptr) return rmsnorm(x, weight, y, rows);
    using Norm = void(const float*, const float*, float*, int64_t);
    reinterpret_cast<Norm*>(dlsym(torch, "rms_norm"))(x, weight, y, rows);
}
