// what: queues its work for a thread that no clock waits for (deep-reinforce, CUDA-L2 defense.py)
// task: rmsnorm
// expected: output_not_written
// threads: 2

#include <cmath>
#include <cstdint>
#include <thread>

struct Job {
    const float* x;
    const float* weight;
    float* y;
    int64_t rows;
};

static Job jobs[1 << 16];
static volatile long queued, done;

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

static void work() {
    for (;;) {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        while (done < queued) {
            const Job& job = jobs[done % (1 << 16)];
            rmsnorm(job.x, job.weight, job.y, job.rows);
            done = done + 1;
        }
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    static std::thread* worker = new std::thread(work);
    jobs[queued % (1 << 16)] = {x, weight, y, rows};
    queued = queued + (worker != nullptr);
}
