// launch: threads=256
__global__ void swiglu(const float* gate, const float* up, float* y, int64_t count) {
    int64_t at = int64_t(blockIdx.x) * LAUNCH_threads + threadIdx.x;
    if (at < count) y[at] = gate[at] / (1.0f + expf(-gate[at])) * up[at];
}

extern "C" void kernel(const float* x, const __nv_bfloat16* w, float* y, int64_t rows, cudaStream_t stream) {
    int64_t count = rows * 1024;
    swiglu<<<unsigned((count + LAUNCH_threads - 1) / LAUNCH_threads), LAUNCH_threads, 0, stream>>>(x, x, y, count);
}
