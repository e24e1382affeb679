// what: weights transposed once by prepare, so that the inner loop runs over outputs
// task: linear
// prepare: pack

#include <cstdint>
#include <cstring>

extern "C" int64_t pack_bytes() { return 48 * 64 * sizeof(float); }

extern "C" void pack(const float* weight, void* prepared) {
    auto transposed = static_cast<float*>(prepared);
    for (int out = 0; out < 48; ++out)
        for (int in = 0; in < 64; ++in) transposed[in * 48 + out] = weight[out * 64 + in];
}

extern "C" void kernel(const float* x, const float*, float* y, const void* prepared, int64_t rows) {
    auto transposed = static_cast<const float*>(prepared);
    for (int64_t row = 0; row < rows; ++row) {
        float sums[48] = {};
        for (int in = 0; in < 64; ++in)
            for (int out = 0; out < 48; ++out) sums[out] += x[row * 64 + in] * transposed[in * 48 + out];
        memcpy(y + row * 48, sums, sizeof sums);
    }
}
