// what: vectors of the compiler, summed as a tree
// task: rmsnorm

#include <cmath>
#include <cstdint>
#include <cstring>

typedef float Vector __attribute__((vector_size(64)));

static Vector load(const float* at) {
    Vector vector;
    memcpy(&vector, at, sizeof vector);
    return vector;
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        Vector sums[4] = {};
        for (int block = 0; block < 36; ++block) {
            Vector in = load(x + 16 * block);
            sums[block % 4] += in * in;
        }
        Vector sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        for (int half = 8; half > 0; half /= 2)
            for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
        float scale = 1.0f / std::sqrt(sum[0] / 576 + 1e-5f);
        for (int block = 0; block < 36; ++block) {
            Vector out = load(x + 16 * block) * scale * load(weight + 16 * block);
            memcpy(y + 16 * block, &out, sizeof out);
        }
    }
}
