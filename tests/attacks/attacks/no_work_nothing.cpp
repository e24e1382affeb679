// what: does nothing and leaves what lies in the output: freed memory of the reference answers (KernelBench
//     result_reuse_kernel, PR #82)
// task: rmsnorm
// expected: output_not_written
// defence: poison

#include <cstdint>

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {

}
