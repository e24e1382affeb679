"""The kernel languages: how a kernel is written, built and called. `cpp` is C++ with a plain C ABI on a CPU, `cuda` the
same with device pointers and a stream on an NVIDIA GPU.

`c_source` and `cpp_abi` are what both have in common; `cpp_report` and `cuda_report` read what their compilers say.
"""
