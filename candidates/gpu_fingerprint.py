"""DeviceFingerprint of a GPU, and the lock that lends it to one user at a time.

Two GPUs of one model share a fingerprint, and with it kernels and figures; each has a lock of its own.
"""

import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from candidates.benchmark.exclusive import exclusive_slot
from candidates.device import DeviceFingerprint
from kernel_sandbox.runners.gpu_device import DeviceFacts


def fingerprint_gpu(facts: DeviceFacts, compiler: str) -> DeviceFingerprint:
    """`compiler` names the versions that kernels are compiled by. A part of a GPU (MIG) differs from a whole one in its
    name, its multiprocessors and its L2."""
    return DeviceFingerprint(
        kind="cuda",
        model=f"{facts.model}, {facts.memory_bytes >> 30} GiB",
        features=(facts.architecture,),
        cores=facts.multiprocessors,
        cache_bytes=(facts.l2_bytes,),
        compiler=compiler,
        torch_version=torch.__version__,
    )


def gpu_lock_file(uuid: str) -> Path:
    """Whoever runs kernels on the GPU with this UUID holds it, whichever home and user a run has.

    Raises ValueError for what is no UUID of a GPU.
    """
    if not uuid.startswith(("GPU-", "MIG-")) or not uuid[4:].replace("-", "").isalnum():
        raise ValueError(f"{uuid!r} is no UUID of a GPU, such as nvidia-smi -L shows")
    return Path(tempfile.gettempdir()) / f"compiler-agent-{uuid}.lock"


def gpu_slot(uuid: str) -> AbstractContextManager[None]:
    """Waits for everyone else who runs kernels on it: they would take its memory, and its time. Not within itself."""
    return exclusive_slot(gpu_lock_file(uuid))
