// what: computes when it is let go on after a freeze, in a handler of SIGCONT
// task: rmsnorm
// expected: output_not_written

#include <cmath>
#include <csignal>
#include <cstdint>

static const float* pending_x;
static const float* pending_weight;
static float* pending_y;
static int64_t pending_rows;

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

static void work(int) { rmsnorm(pending_x, pending_weight, pending_y, pending_rows); }

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    signal(SIGCONT, work);
    pending_x = x, pending_weight = weight, pending_y = y, pending_rows = rows;
}
