// Best read, copy and multiply-add rates of this machine: `ceilings_probe THREADS BYTES...` prints one JSON object.
// Rates count bytes read plus bytes written, without the read-for-ownership of a plain store.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <omp.h>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef float Vector __attribute__((vector_size(LANES * 4)));

constexpr double SECONDS_PER_RATE = 0.04;

static double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void read_all(const Vector* from, size_t count) {
    Vector a{}, b{}, c{}, d{};
    for (size_t i = 0; i + 4 <= count; i += 4) {
        a += from[i], b += from[i + 1], c += from[i + 2], d += from[i + 3];
    }
    a += b + c + d;
    asm volatile("" : : "x"(a));
}

static void copy_all(Vector* to, const Vector* from, size_t count) {
    for (size_t i = 0; i + 4 <= count; i += 4) {
        to[i] = from[i], to[i + 1] = from[i + 1], to[i + 2] = from[i + 2], to[i + 3] = from[i + 3];
    }
    asm volatile("" : : : "memory");
}

static void stream_all(Vector* to, const Vector* from, size_t count) {
#if defined(__AVX512F__)
    for (size_t i = 0; i < count; i++) __builtin_ia32_movntps512((float*)(to + i), from[i]);
#elif defined(__AVX__)
    for (size_t i = 0; i < count; i++) __builtin_ia32_movntps256((float*)(to + i), from[i]);
#else
    copy_all(to, from, count);
#endif
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
    asm volatile("" : : : "memory");
}

// Runs `pass` on every thread, again and again for SECONDS_PER_RATE; best work units per second over all samples.
template <class Pass>
static double best_rate(int threads, double units_per_pass_and_thread, const Pass& pass) {
    double best = 0, end = now_s() + SECONDS_PER_RATE;
    size_t passes = 1;
    do {
        double began = 0, ended = 0;
#pragma omp parallel num_threads(threads)
        {
            int thread = omp_get_thread_num();
#pragma omp barrier
#pragma omp master
            began = now_s();
            for (size_t i = 0; i < passes; i++) pass(thread);
#pragma omp barrier
#pragma omp master
            ended = now_s();
        }
        best = std::max(best, units_per_pass_and_thread * threads * passes / (ended - began));
        if (ended - began < 200e-6) passes *= 2;
    } while (now_s() < end);
    return best;
}

static double fma_rate(int threads) {
    constexpr int CHAINS = 12, ROUNDS = 4096;
    return best_rate(threads, 2.0 * LANES * CHAINS * ROUNDS, [](int) {
        Vector sum[CHAINS] = {}, factor = {}, addend = {};
        asm volatile("" : "+x"(factor), "+x"(addend));
        for (int j = 0; j < CHAINS; j++) asm volatile("" : "+x"(sum[j]));  // else equal chains are merged into one
        for (int i = 0; i < ROUNDS; i++)
            for (int j = 0; j < CHAINS; j++) sum[j] = sum[j] * factor + addend;
        for (int j = 0; j < CHAINS; j++) asm volatile("" : : "x"(sum[j]));
    });
}

#if defined(__AVX512BF16__)
static double bfloat16_rate(int threads) {
    constexpr int CHAINS = 12, ROUNDS = 4096;
    return best_rate(threads, 2.0 * 32 * CHAINS * ROUNDS, [](int) {
        __m512 sum[CHAINS] = {};
        __m512bh left = (__m512bh)_mm512_set1_epi16(0x3f80), right = left;
        asm volatile("" : "+x"(left), "+x"(right));
        for (int j = 0; j < CHAINS; j++) asm volatile("" : "+x"(sum[j]));
        for (int i = 0; i < ROUNDS; i++)
            for (int j = 0; j < CHAINS; j++) sum[j] = _mm512_dpbf16_ps(sum[j], left, right);
        for (int j = 0; j < CHAINS; j++) asm volatile("" : : "x"(sum[j]));
    });
}
#endif

int main(int argc, char** argv) {
    int threads = std::atoi(argv[1]);
    std::printf("{\"levels\": [");
    for (int i = 2; i < argc; i++) {
        size_t bytes = std::strtoull(argv[i], nullptr, 10) / threads / 512 * 512;
        char** buffers = new char*[threads];
#pragma omp parallel num_threads(threads)
        {
            // Each thread touches its own memory first, so that it lies near.
            buffers[omp_get_thread_num()] = (char*)std::aligned_alloc(64, bytes);
            std::memset(buffers[omp_get_thread_num()], 0, bytes);
        }
        size_t count = bytes / sizeof(Vector), half = count / 2;
        double read = best_rate(threads, bytes, [&](int t) { read_all((Vector*)buffers[t], count); });
        double copy = best_rate(threads, bytes, [&](int t) {
            copy_all((Vector*)buffers[t] + half, (Vector*)buffers[t], half);
        });
        double stream = best_rate(threads, bytes, [&](int t) {
            stream_all((Vector*)buffers[t] + half, (Vector*)buffers[t], half);
        });
        std::printf("%s{\"read\": %.6g, \"copy\": %.6g}", i > 2 ? ", " : "", read, std::max(copy, stream));
        for (int t = 0; t < threads; t++) std::free(buffers[t]);
        delete[] buffers;
    }
    std::printf("], \"flops_per_s\": {\"float32\": %.6g", fma_rate(threads));
#if defined(__AVX512BF16__)
    std::printf(", \"bfloat16\": %.6g", bfloat16_rate(threads));
#endif
    std::printf("}}\n");
}
