"""Abuses of a sandbox, each with the ending that it must come to in every one; the programs are in `abuses/`."""

import signal
from dataclasses import dataclass

from kernel_sandbox.sandbox import Ending, Limits

LIMITS = Limits(wall_s=10.0, cpu_s=10, memory_bytes=1 << 30, processes=20, scratch_bytes=32 << 20, log_bytes=4096)
SHORT = Limits(wall_s=0.3)
SIGXFSZ = (Ending.SIGNALED, signal.SIGXFSZ)
REFUSED = (Ending.EXITED, 1)
OVER = (Ending.EXITED, 0)
"""It is let through to its end, and gains nothing by it."""

_REFUSALS = {
    "network": "tcp metadata udp ipv6 dns unix docker hypervisor packets raw_socket",
    "other processes": "trace_child trace_parent read_parent signal_launcher hurry real_time change_core"
    " no_oom more_processes more_memory own_cpu_limit stack_of_init launchers_descriptors",
    "privileges": "become_root capabilities user_namespace user_namespace_by_clone network_namespace join_namespace"
    " mount remount unmount new_mount_api change_root device_node",
    "kernel": "keyring add_key bpf perf io_uring userfaultfd kernel_log clock host_name reboot sysrq sysctl"
    " core_offline kernel_memory",
    "files": "write_system write_root write_devices write_preload write_cgroup climb_out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Abuse:
    argv: tuple[str, ...]
    ending: Ending
    exit_code: int | None = None
    """None: whatever it is."""
    limits: Limits = LIMITS
    is_started: bool = False


def _exhaustion(
    *arguments: str, end: tuple[Ending, int | None], limits: Limits = LIMITS, is_started: bool = False
) -> Abuse:
    argv = ("/scratch/exhaustion", *arguments)
    return Abuse(argv=argv, ending=end[0], exit_code=end[1], limits=limits, is_started=is_started)


ABUSES: dict[str, Abuse] = {
    **{
        act: Abuse(argv=("/scratch/refusals", act), ending=REFUSED[0], exit_code=REFUSED[1])
        for act in " ".join(_REFUSALS.values()).split()
    },
    **{name: _exhaustion(name, end=REFUSED) for name in ("fork_bomb", "thread_bomb", "zombies")},
    "eat_memory": _exhaustion("eat_memory", end=(Ending.OUT_OF_MEMORY, None)),
    "eat_memory_started": _exhaustion("eat_memory", end=(Ending.OUT_OF_MEMORY, None), is_started=True),
    "burn_processor": Abuse(
        argv=("sh", "-c", "while :; do :; done"), ending=Ending.TIMED_OUT, limits=Limits(cpu_s=1, wall_s=20.0)
    ),
    "burn_processor_together": _exhaustion(
        "burn_together", end=(Ending.TIMED_OUT, None), limits=Limits(cpu_s=1, wall_s=3.0)
    ),
    **{
        f"{abuse} {folder}": _exhaustion(abuse, folder, end=SIGXFSZ)
        for abuse in ("fill", "fill_inodes")
        for folder in ("/scratch", "/tmp", "/dev/shm")
    },
    "fill_started": _exhaustion("fill", "/tmp", end=SIGXFSZ, is_started=True),
    "sparse_file": _exhaustion("sparse", end=SIGXFSZ),
    **{name: _exhaustion(name, end=OVER) for name in ("flood", "flood_stdout", "flood_stderr")},
    **{
        f"{name}{suffix}": _exhaustion(name, end=(Ending.TIMED_OUT, None), limits=SHORT, is_started=bool(suffix))
        for name in ("sleep", "ignore_signals", "stop_itself")
        for suffix in ("", "_started")
    },
    "outlive": _exhaustion("outlive", end=OVER),
    "lock_folders": _exhaustion("lock_folders", end=OVER),
    **{
        f"pretend_{how}": _exhaustion(
            "pretend", how, end=(Ending.FORBIDDEN_SYSTEM_CALL, signal.SIGSYS), is_started=True
        )
        for how in ("exit", "exit_of_thread")
    },
    **{
        f"pretend_{how}": _exhaustion("pretend", how, end=(Ending.EXITED, 3), is_started=True)
        for how in ("kill", "kill_all", "kill_from_child", "timer", "child_exit", "parent_death", "pipe_signal")
    },
}
