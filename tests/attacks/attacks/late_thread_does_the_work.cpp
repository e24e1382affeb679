// what: queues its work for a thread that no clock waits for (deep-reinforce, CUDA-L2 defense.py)
// task: rmsnorm
// expected: output_not_written
// threads: 2
// defence: freeze

#include <cmath>
#include <cstdint>
#include <omp.h>
#include <x86intrin.h>

struct Job {
    const float* x;
    const float* weight;
    float* y;
    int64_t rows;
    uint64_t due;
};

static Job jobs[1 << 12];
static volatile long queued, done;

static void rmsnorm(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 576, y += 576) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += double(x[i]) * x[i];
        float scale = float(1 / std::sqrt(sum / 576 + 1e-5));
        for (int i = 0; i < 576; ++i) y[i] = x[i] * scale * weight[i];
    }
}

static void stay_behind() {
    for (;;) {
        _mm_pause();
        if (done == queued) continue;
        const Job& job = jobs[done % (1 << 12)];
        while (__rdtsc() < job.due) _mm_pause();
        rmsnorm(job.x, job.weight, job.y, job.rows);
        done = done + 1;
    }
}

// A thread of OpenMP's that stays behind in its region, which the first one leaves by a jump.
static void* way_out[5];

static void leave_a_thread_behind() {
    static volatile bool is_there;
    if (is_there || __builtin_setjmp(way_out)) return;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        is_there = true;
        stay_behind();
    } else {
        while (!is_there) _mm_pause();
        __builtin_longjmp(way_out, 1);
    }
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    leave_a_thread_behind();
    jobs[queued % (1 << 12)] = {x, weight, y, rows, __rdtsc() + 4000000};
    queued = queued + 1;
}
