// what: keys its cache with a few rounded elements, which heavily tied inputs share (fingerprint replay,
//     flashinfer-bench-starter-kit #21)
// task: rmsnorm
// expected: wrong_values

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

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    struct Kept {
        int64_t rows;
        long key;
        float* result;
    };
    static Kept kept[256];
    long key = std::lrint(x[0] + 1) * 8 + std::lrint(x[575]);
    Kept* found = kept;
    while (found->result && (found->rows != rows || found->key != key)) ++found;
    if (found->result == nullptr) {
        rmsnorm(x, weight, y, rows);
        *found = {rows, key, static_cast<float*>(malloc(rows * 576 * sizeof(float)))};
        memcpy(found->result, y, rows * 576 * sizeof(float));
    }
    memcpy(y, found->result, rows * 576 * sizeof(float));
}
