"""A seccomp filter for any sandboxed program: what only attacks or machine settings need fails with EPERM.

Runners that know what they need install a stricter filter of their own on top.
"""

import platform
import signal
import socket
import struct
from collections.abc import Sequence

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
    "fanotify_init": (300, 262),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "personality": (135, 92),
    "memfd_secret": (447, 447),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}
_SOCKET, _CLONE, _CLONE3 = (41, 198), (56, 220), (435, 435)
_SETRLIMIT, _PRLIMIT = (160, 164), (302, 261)
_EXIT, _EXIT_GROUP = (60, 93), (231, 94)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# Others reach past network namespaces (VSOCK: the hypervisor), or are kernel code that nothing here needs.
_SOCKET_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}, from linux/sched.h
_RLIMIT_STACK = 3  # compilers raise it for deep recursion
_KILLED_STATUS = 128 + signal.SIGKILL

_LOAD, _AND = 0x20, 0x54
_JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_ANY_BIT, _RETURN = 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _EPERM, _ENOSYS, _EAFNOSUPPORT = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x50061


def seccomp_filter(*, may_exit_as_killed: bool = True) -> bytes:
    """The BPF program for this machine's architecture, as `bwrap --seccomp` reads it.

    A program that lowered its own limit on CPU time, or exited with 128 + SIGKILL, would look as if somebody had killed
    it. The second is left to programs that are not process 1, of which nobody believes it.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxUnavailable(f"no system call filter for {machine}: add its numbers to {__name__}")
    column, audit_architecture = _ARCHITECTURES[machine]
    program = [
        _instruction(_LOAD, 4),
        _instruction(_JUMP_IF_EQUAL, audit_architecture, on_true=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, 0),
        # The x32 numbers of x86_64 would pass by every comparison below.
        _instruction(_JUMP_IF_AT_LEAST, 0x40000000, on_false=1),
        _instruction(_RETURN, _EPERM),
    ]
    families = [
        _instruction(_JUMP_IF_EQUAL, f, on_true=len(_SOCKET_FAMILIES) - i) for i, f in enumerate(_SOCKET_FAMILIES)
    ]
    program += _on(_SOCKET[column], [_argument(0), *families, _answer(_EAFNOSUPPORT), _answer(_ALLOW)])
    program += _on(
        _CLONE[column],
        [_argument(0), _instruction(_JUMP_IF_ANY_BIT, _NEW_NAMESPACES, on_true=1), _answer(_ALLOW), _answer(_EPERM)],
    )
    program += _on(_CLONE3[column], [_answer(_ENOSYS)])  # its flags lie in memory; libraries fall back to clone
    stack_only = _instruction(_JUMP_IF_EQUAL, _RLIMIT_STACK, on_false=1)
    program += _on(_SETRLIMIT[column], [_argument(0), stack_only, _answer(_ALLOW), _answer(_EPERM)])
    is_none = [
        *(_argument(2), _instruction(_JUMP_IF_EQUAL, 0, on_false=3)),
        *(_argument_high(2), _instruction(_JUMP_IF_EQUAL, 0, on_false=1), _answer(_ALLOW)),
    ]
    # Its own, not that of process 1, which has its uid and starts the others.
    is_own = [_argument(0), _instruction(_JUMP_IF_EQUAL, 0, on_true=1), _answer(_EPERM)]
    program += _on(_PRLIMIT[column], [*is_none, *is_own, _argument(1), stack_only, _answer(_ALLOW), _answer(_EPERM)])
    if not may_exit_as_killed:
        for numbers in (_EXIT, _EXIT_GROUP):
            is_killed = [_instruction(_AND, 0xFF), _instruction(_JUMP_IF_EQUAL, _KILLED_STATUS, on_false=1)]
            program += _on(numbers[column], [_argument(0), *is_killed, _answer(_KILL_PROCESS), _answer(_ALLOW)])
    denied = sorted(numbers[column] for numbers in _DENIED.values())
    for index, number in enumerate(denied):
        program.append(_instruction(_JUMP_IF_EQUAL, number, on_true=len(denied) - index))
    program += [_answer(_ALLOW), _answer(_EPERM)]
    return b"".join(program)


def _on(number: int, instructions: Sequence[bytes]) -> list[bytes]:
    """Only for one system call; every path through `instructions` must end in an answer."""
    return [_instruction(_JUMP_IF_EQUAL, number, on_false=len(instructions)), *instructions]


def _answer(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _argument(index: int) -> bytes:
    """Its low half: both architectures are little-endian."""
    return _instruction(_LOAD, 16 + 8 * index)


def _argument_high(index: int) -> bytes:
    return _instruction(_LOAD, 20 + 8 * index)


def _instruction(code: int, value: int, on_true: int = 0, on_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, on_true, on_false, value)
