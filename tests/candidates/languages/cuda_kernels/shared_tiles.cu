// launch: tile=32
// More shared memory than a block gets unasked.
__global__ void transpose(const float* x, float* y, int rows) {
    extern __shared__ float tile[];
    int row = blockIdx.y * LAUNCH_tile + threadIdx.y, column = blockIdx.x * LAUNCH_tile + threadIdx.x;
    if (row < rows) tile[threadIdx.y * (LAUNCH_tile + 1) + threadIdx.x] = x[row * 1024 + column];
    __syncthreads();
    int turned_row = blockIdx.x * LAUNCH_tile + threadIdx.y, turned_column = blockIdx.y * LAUNCH_tile + threadIdx.x;
    if (turned_column < rows) y[turned_row * rows + turned_column] = tile[threadIdx.x * (LAUNCH_tile + 1) + threadIdx.y];
}

extern "C" void kernel(const float* x, const __nv_bfloat16* w, float* y, int64_t rows, cudaStream_t stream) {
    int bytes = 96 << 10;
    cudaFuncSetAttribute(transpose, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    dim3 blocks(1024 / LAUNCH_tile, unsigned((rows + LAUNCH_tile - 1) / LAUNCH_tile)), threads(LAUNCH_tile, LAUNCH_tile);
    transpose<<<blocks, threads, bytes, stream>>>(x, y, int(rows));
}
