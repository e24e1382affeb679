"""The kernel languages: how a kernel is written, built and called. `cpp` is C++ with a plain C ABI on a CPU."""
