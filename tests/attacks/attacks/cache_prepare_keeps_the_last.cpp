// what: prepare keeps a static pointer to the parameters that it saw last, and the kernel ignores its own
// task: linear
// expected: wrong_values
// prepare: pack

#include <cstdint>

static const float* seen;

extern "C" int64_t pack_bytes() { return 0; }

extern "C" void pack(const float* weight, void*) { seen = weight; }

extern "C" void kernel(const float* x, const float*, float* y, const void*, int64_t rows) {
    for (int64_t at = 0; at < rows * 48; ++at) {
        double sum = 0;
        for (int i = 0; i < 64; ++i) sum += double(x[at / 48 * 64 + i]) * seen[at % 48 * 64 + i];
        y[at] = float(sum);
    }
}
