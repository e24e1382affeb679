// what: keeps the first result for a shape and a set of weights and returns it ever after
// task: rmsnorm
// expected: wrong_values
// defence: fresh_content

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
        const float* weight;
        float* result;
    };
    static Kept kept[64];
    Kept* found = kept;
    while (found->result && (found->rows != rows || found->weight != weight)) ++found;
    if (found->result == nullptr) {
        rmsnorm(x, weight, y, rows);
        *found = {rows, weight, static_cast<float*>(malloc(rows * 576 * sizeof(float)))};
        memcpy(found->result, y, rows * 576 * sizeof(float));
    }
    memcpy(y, found->result, rows * 576 * sizeof(float));
}
