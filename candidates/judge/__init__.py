"""The judge: `cpp_runner` and `python_runner` call a kernel in its sandbox, the rest decides whether what it left is
right. `sanitizers_by_language` look at how it runs: `sanitizers` those in C++, `gpu_sanitizers` those for a GPU, on
`plain_calls` under a `watcher`.
"""
