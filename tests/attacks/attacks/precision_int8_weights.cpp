// what: packs weights into 8 bits where float32 is the task (fp8 GEMM sold as bf16)
// task: linear
// expected: wrong_values
// prepare: pack

#include <cmath>
#include <cstdint>

struct Packed {
    float scale;
    int8_t weight[48 * 64];
};

extern "C" int64_t pack_bytes() { return sizeof(Packed); }

extern "C" void pack(const float* weight, void* prepared) {
    auto packed = static_cast<Packed*>(prepared);
    float largest = 0;
    for (int i = 0; i < 48 * 64; ++i) largest = std::fmax(largest, std::fabs(weight[i]));
    packed->scale = largest / 127;
    for (int i = 0; i < 48 * 64; ++i) packed->weight[i] = int8_t(std::lrint(weight[i] / packed->scale));
}

extern "C" void kernel(const float* x, const float*, float* y, const void* prepared, int64_t rows) {
    auto packed = static_cast<const Packed*>(prepared);
    for (int64_t at = 0; at < rows * 48; ++at) {
        float sum = 0;
        for (int i = 0; i < 64; ++i) sum += x[at / 48 * 64 + i] * packed->weight[at % 48 * 64 + i];
        y[at] = sum * packed->scale;
    }
}
