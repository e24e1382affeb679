// flags: --maxrregcount=24
__global__ void many_values(const float* x, float* y) {
    float values[96];
#pragma unroll
    for (int at = 0; at < 96; ++at) values[at] = x[at * 32 + threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int at = 0; at < 96; ++at) sum = fmaf(sum, values[at], values[95 - at]);
    y[threadIdx.x] = sum;
}

extern "C" void kernel(const float* x, const __nv_bfloat16* w, float* y, int64_t rows, cudaStream_t stream) {
    many_values<<<1, 32, 0, stream>>>(x, y);
}
