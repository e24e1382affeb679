"""The kernel languages: how a kernel is written, built and called: `cpp` (CPU), `cuda`, `triton`.

All: `source_header` and `task_words`. C-like: `c_source`, `cpp_abi`; `cpp_report` (with `machine_loops`) and
`cuda_report` read what their compilers say; `cuda_toolkit` finds NVIDIA's. For GPUs: `gpu_architectures`,
`gpu_occupancy`, `gpu_instructions`.
Triton, in data-flow order: `triton_brief` tells an author, `triton_source` (with `triton_module`,
`triton_statements`, `triton_expressions` by the lists of `triton_rules`) checks what comes back, `triton_artifact` and
`triton_report` read what the build left.
"""
