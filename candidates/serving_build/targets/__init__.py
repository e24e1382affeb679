"""Serving targets, a file each: what is written so that a build's kernels load elsewhere.

hf_kernels         a kernel repository of Hugging Face `kernels`: layers and functions
flashinfer_trace   a FlashInfer-Bench dataset: definitions, workloads, solutions
vllm, sglang       a Python package that the engine finds as its plugin; both are an `engine_package`
"""
