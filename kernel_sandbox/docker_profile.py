"""What a container may: the hardened profile, as the body of Docker's `POST /containers/create` (API 1.41).

Pure: takes limits, gives a document. Docker's own seccomp profile (and AppArmor's, where there is one) stay on: nothing
here replaces them; the supervisor puts the stricter filter of `system_calls` on top, right before a program starts.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_sandbox.control_groups import machine_bytes, most_memory
from kernel_sandbox.sandbox import SCRATCH, Limits

SUPERVISOR = "/kernel-sandbox-supervisor"
"""The supervisor in every image; in the root folder, which no read-only folder of a session can hide."""
SOCKET_FOLDER = "/run/supervisor"
SOCKET = "socket"
OWNER_LABEL = "kernel-sandbox.owner"
NOBODY = "65534:65534"

SCRATCH_FOLDERS = (SCRATCH, "/tmp", "/dev/shm")
INODE_BYTES = 4096
"""What each file is charged with at least."""
_SLACK_BYTES = 64 << 10
"""So much more fits into each file system than is allowed, so that overstepping can be told from using all of it."""
# The container's runtime starts with threads of its own that count; the runner of C++ kernels bounds its own further.
_FEWEST_PROCESSES = 24
_MOST_DESCRIPTORS = 4096

_GPU_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+")
_CDI_NAME = re.compile(r"[a-z0-9.-]+\.[a-z]+/[a-z]+=[0-9A-Za-z:_./-]+")


def container_config(
    image_id: str,
    limits: Limits,
    *,
    user: str,
    owner: str,
    read_only: Mapping[Path, str],
    gpus: Sequence[str] = (),
) -> dict[str, object]:
    """`read_only` maps host paths to where they appear inside, among them that of the supervisor's socket."""
    can_write = limits.scratch_bytes > 0
    return {
        "Image": image_id,
        "Entrypoint": [SUPERVISOR],
        "Cmd": [f"{SOCKET_FOLDER}/{SOCKET}", *(SCRATCH_FOLDERS if can_write else ())],
        "User": user,
        "Hostname": "sandbox",
        "WorkingDir": "/",
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {OWNER_LABEL: owner},
        "StopTimeout": 1,
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "Privileged": False,
            # Private to the container; without what can be written there, there is no /dev/shm either.
            "IpcMode": "private" if can_write else "none",
            "PidsLimit": max(limits.processes, _FEWEST_PROCESSES) + 1,
            "Memory": memory_limit_bytes(limits),
            "MemorySwap": memory_limit_bytes(limits),
            # All cores that we have: fewer would throttle what is measured. How long they work, `Limits.cpu_s` says.
            "NanoCpus": len(os.sched_getaffinity(0)) * 10**9,
            "Ulimits": [
                {"Name": name, "Soft": most, "Hard": most}
                for name, most in (("core", 0), ("fsize", limits.scratch_bytes), ("nofile", _MOST_DESCRIPTORS))
            ],
            "Tmpfs": _file_systems(limits.scratch_bytes) if can_write else {},
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": str(source.resolve()),
                    "Target": target,
                    "ReadOnly": True,
                    # What is mounted below would stay writable with older engines.
                    "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
                }
                for source, target in read_only.items()
            ],
            # Programs write to pipes of ours; the supervisor says nothing that is worth a file.
            "LogConfig": {"Type": "none", "Config": {}},
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
            "DeviceRequests": device_requests(gpus),
        },
    }


def memory_limit_bytes(limits: Limits) -> int:
    """What is written to scratch folders is memory here, and counted with that of the processes."""
    return most_memory(limits.memory_bytes + limits.scratch_bytes, machine_bytes())


def device_requests(gpus: Sequence[str]) -> list[dict[str, object]]:
    """GPUs by UUID (`GPU-…`, `MIG-…`), or all by their CDI name (`nvidia.com/gpu=…`). Raises ValueError."""
    if not gpus:
        return []
    if all(_CDI_NAME.fullmatch(gpu) for gpu in gpus):
        return [{"Driver": "cdi", "DeviceIDs": list(gpus)}]
    if all(_GPU_UUID.fullmatch(gpu) for gpu in gpus):
        return [
            {
                "Driver": "nvidia",
                "DeviceIDs": list(gpus),
                "Capabilities": [["gpu", "compute", "utility"]],
                "Options": {},
            }
        ]
    raise ValueError(
        f"{', '.join(gpus)}: name GPUs all by UUID (GPU-… or MIG-…, as nvidia-smi -L prints them) or all by CDI name "
        "(nvidia.com/gpu=UUID)"
    )


def _file_systems(scratch_bytes: int) -> dict[str, str]:
    """Only where compilers put what they then run can anything be run. All may write: who else would be in there?"""
    size = most_memory(scratch_bytes, machine_bytes()) + _SLACK_BYTES
    bounds = f"rw,nosuid,nodev,size={size},nr_inodes={size // INODE_BYTES},mode=0777"
    return {folder: f"{bounds},{'exec' if folder == SCRATCH else 'noexec'}" for folder in SCRATCH_FOLDERS}
