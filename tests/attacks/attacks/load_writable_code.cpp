// what: brings memory that is writable and executable, for code that no scan sees
// task: rmsnorm
// expected: forbidden_symbol

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

asm(".pushsection .room, \"awx\"\n room: .skip 64\n .popsection");
extern "C" __attribute__((visibility("hidden"))) volatile unsigned char room[64];

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    rmsnorm(x, weight, y, rows);

    room[0] = 0xC3;
    reinterpret_cast<void (*)()>(const_cast<unsigned char*>(room))();
}
