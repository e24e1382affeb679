// A row a block.
__global__ void rows_of(const float* x, const float* weight, float* y, int width) {
    float sum = 0.0f;
    long long row = blockIdx.x * (long long)width;
    for (int at = threadIdx.x; at < width; at += blockDim.x) sum += x[row + at] * x[row + at];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    __shared__ float of_warp[8];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int warp = 0; warp < 8; ++warp) sum += of_warp[warp];
    float scale = rsqrtf(sum / width + 1e-5f);
    for (int at = threadIdx.x; at < width; at += blockDim.x) y[row + at] = x[row + at] * scale * weight[at];
}

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows, cudaStream_t stream) {
    rows_of<<<unsigned(rows), 256, 0, stream>>>(x, weight, y, 1024);
}
