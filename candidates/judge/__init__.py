"""The judge: `cpp_runner` and `python_runner` call a kernel in its sandbox, the rest decides whether what it left is
right. `sanitizers` and, for a GPU, `gpu_sanitizers` under a `watcher` look at how it runs, on `plain_calls`.
"""
