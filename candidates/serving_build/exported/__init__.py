"""What exports carry: these files are copied, and run in somebody else's process with PyTorch and nothing of ours.

runtime_file   the runtime that lies in a build, once its bytes are what the build's manifest says
kernel_sites   kernels behind the layers and functions of a Hugging Face `kernels` package
installing     a build in the models that an engine loads: whose they are, what was installed, what it counted
vllm_plugin, sglang_plugin   where each engine is told of it
"""
