"""What every sandboxed program starts with, whatever the sandbox is made of: its environment, and limits of its own."""

import resource

from kernel_sandbox.sandbox import SCRATCH, Limits

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": SCRATCH,
    "TMPDIR": SCRATCH,
    "USER": "nobody",
    "LANG": "C.UTF-8",
}


def resource_limits(limits: Limits) -> dict[int, tuple[int, int]]:
    """(soft, hard) by RLIMIT_*, for each process; not of the number of processes, which the kernel counts by uid."""
    both = {
        resource.RLIMIT_AS: limits.memory_bytes if limits.limits_address_space else resource.RLIM_INFINITY,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.scratch_bytes,
        resource.RLIMIT_NOFILE: 1024,
    }
    pairs = {number: (value, value) for number, value in both.items()}
    return pairs | {resource.RLIMIT_CPU: (limits.cpu_s, limits.cpu_s + 1)}
