// what: takes its output for an input
// task: rmsnorm
// expected: build_failed

#include <cstdint>

extern "C" void kernel(float* x, const float* weight, const float* y, int64_t rows) {}
