"""Dockerfiles of the docker sandbox: `cpu` for C++ and Triton without a GPU, `cuda` for kernels that need one."""
