"""A seccomp filter for any sandboxed program: what only attacks or machine settings need fails with EPERM.

Runners that know what they need install a stricter filter of their own on top.
"""

import platform
import struct

from kernel_sandbox.sandbox import SandboxUnavailable

_DENIED = {
    # name: (x86_64, aarch64); from the kernel's arch/x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "syslog": (103, 116),
    "personality": (135, 92),
}
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL_PROCESS, _EPERM = 0x7FFF0000, 0x80000000, 0x00050000 | 1


def seccomp_filter() -> bytes:
    """The BPF program for this machine's architecture, as `bwrap --seccomp` reads it."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxUnavailable(f"no system call filter for {machine}: add its numbers to {__name__}")
    column, audit_architecture = _ARCHITECTURES[machine]
    numbers = sorted(numbers[column] for numbers in _DENIED.values())
    program = [
        _instruction(_LOAD, 4),
        _instruction(_JUMP_IF_EQUAL, audit_architecture, on_true=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, 0),
        # The x32 numbers of x86_64 would pass by every comparison below.
        _instruction(_JUMP_IF_AT_LEAST, 0x40000000, on_true=len(numbers) + 1),
    ]
    for index, number in enumerate(numbers):
        program.append(_instruction(_JUMP_IF_EQUAL, number, on_true=len(numbers) - index))
    program += [_instruction(_RETURN, _ALLOW), _instruction(_RETURN, _EPERM)]
    return b"".join(program)


def _instruction(code: int, value: int, on_true: int = 0, on_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, on_true, on_false, value)
