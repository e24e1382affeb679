"""ProcessTree: every process of one sandbox, seen from the host: frozen, counted, ended, its log kept."""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from enum import Enum, auto

from kernel_sandbox.sandbox import Ending, Finished, SandboxError

FREEZE_LIMIT_S = 10.0
_CPU_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED, from linux/posix-timers.h: the clock id holds the inverted pid above it
_THREAD_COUNT = 17  # field 20 of /proc/PID/stat (proc(5)), counted from the state
_STOPPED = (b"T", b"Z", b"X", b"")  # or dead, or gone
_OUT_OF_MEMORY_WORDS = ("std::bad_alloc", "MemoryError", "out of memory", "memory exhausted", "Cannot allocate memory")


class _Cause(Enum):
    """Why we killed the program ourselves."""

    TIME = auto()
    SCRATCH = auto()
    REQUEST = auto()


class ProcessTree:
    """`root_pid` is process 1 of the sandbox's pid namespace: killing it kills all, orphans become its children.

    `launcher` is the process outside that waits for it and passes its status on. A daemon thread drains `log_fd` and
    kills at `wall_s`. A program that exits with 128 + n reads as ended by signal n: what counts is the status, and
    lying about it gains nothing.
    """

    def __init__(
        self,
        launcher: "subprocess.Popen[bytes]",
        root_pid: int,
        log_fd: int,
        *,
        log_bytes: int,
        wall_s: float,
        cpu_s: int,
    ) -> None:
        self.root_pid = root_pid
        self._launcher = launcher
        self._launcher_fd = os.pidfd_open(launcher.pid)
        self._root_fd = os.pidfd_open(root_pid)
        # Kept open: most programs are one thread, which is then stopped or counted in a few microseconds.
        self._root_stat_fd = os.open(f"/proc/{root_pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._root_status_fd = os.open(f"/proc/{root_pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        self._root_children_fd = os.open(f"/proc/{root_pid}/task/{root_pid}/children", os.O_RDONLY | os.O_CLOEXEC)
        self._log_fd = log_fd
        self._log_bytes = log_bytes
        self._log = bytearray()
        self._started_s = time.monotonic()
        self._deadline_s = self._started_s + wall_s
        self._cpu_s = cpu_s
        self._frozen_children: list[int] = []
        self._cause: _Cause | None = None
        self._finished: Finished | None = None
        self._watcher = threading.Thread(target=self._watch, name="sandbox-watcher", daemon=True)
        self._watcher.start()

    def freeze(self) -> None:
        """Stops every thread. Raises SandboxError when processes appear faster than they can be stopped."""
        deadline_s = time.monotonic() + FREEZE_LIMIT_S
        self._signal_root(signal.SIGSTOP)
        while time.monotonic() < deadline_s:
            state = self._only_threads_state()
            if state is not None and state in _STOPPED:
                self._frozen_children = []
                return
            if state is None:
                pids = self._pids()
                running = [pid for pid in pids if not _is_stopped(pid)]
                if not running and self._pids() == pids:
                    self._frozen_children = pids[1:]
                    return
                for pid in running:
                    _signal(pid, signal.SIGSTOP)
            os.sched_yield()
        raise SandboxError(f"the processes below {self.root_pid} cannot be frozen: they multiply or do not stop")

    def thaw(self) -> None:
        self._signal_root(signal.SIGCONT)
        for pid in self._frozen_children:
            _signal(pid, signal.SIGCONT)
        self._frozen_children = []

    def involuntary_switches(self) -> int:
        if self._only_threads_state() is not None:
            return _involuntary_switches(_read(self._root_status_fd))
        paths = (f"/proc/{pid}/task/{thread}/status" for pid in self._pids() for thread in _threads(pid))
        return sum(_involuntary_switches(_read_path(path)) for path in paths)

    def cpu_time_ns(self) -> int:
        """Of process 1 alone; where the program may start others, they are not in it."""
        try:
            return time.clock_gettime_ns(~self.root_pid << 3 | _CPU_CLOCK_OF_PROCESS)
        except OSError:  # it has ended
            return 0

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the program has ended within that time; without one, waits until the wall-clock limit."""
        self._watcher.join(seconds)
        return not self._watcher.is_alive()

    def kill(self, grace_s: float = 0.0) -> Finished:
        """Idempotent; a program that ended by itself within `grace_s` keeps its own ending."""
        self._watcher.join(grace_s)
        return self._end(_Cause.REQUEST)

    def kill_for_scratch(self) -> Finished:
        """For a program that filled its scratch folder; reads as SIGXFSZ, the kernel's word for one large file."""
        return self._end(_Cause.SCRATCH)

    def _end(self, cause: _Cause) -> Finished:
        if self._finished is None:
            if self._watcher.is_alive():
                self._cause = self._cause or cause
                self._signal_root(signal.SIGKILL)
            self._watcher.join()
            self._finished = self._reap()
        return self._finished

    def _watch(self) -> None:
        """Ends when the launcher has: by then the kernel has killed the whole namespace."""
        poll = select.poll()
        poll.register(self._log_fd, select.POLLIN)
        poll.register(self._launcher_fd, select.POLLIN)
        while True:
            remaining_s = self._deadline_s - time.monotonic()
            if remaining_s <= 0:
                self._cause = self._cause or _Cause.TIME
                self._signal_root(signal.SIGKILL)
                remaining_s = 1.0
            ready = {descriptor for descriptor, _ in poll.poll(remaining_s * 1000)}
            if self._log_fd in ready:
                piece = os.read(self._log_fd, 1 << 16)
                self._log += piece
                del self._log[: -self._log_bytes]
                if not piece:
                    poll.unregister(self._log_fd)
            elif self._launcher_fd in ready:
                return

    def _reap(self) -> Finished:
        _, status, usage = os.wait4(self._launcher.pid, 0)
        code = self._launcher.returncode = os.waitstatus_to_exitcode(status)
        for descriptor in (
            *(self._launcher_fd, self._root_fd, self._log_fd),
            *(self._root_stat_fd, self._root_status_fd, self._root_children_fd),
        ):
            os.close(descriptor)
        log = self._log.decode(errors="replace")
        used_up_cpu = usage.ru_utime + usage.ru_stime >= self._cpu_s
        ending, exit_code = _read_ending(self._cause, code, log, used_up_cpu=used_up_cpu)
        return Finished(ending=ending, exit_code=exit_code, log=log, wall_s=time.monotonic() - self._started_s)

    def _signal_root(self, number: int) -> None:
        if self._finished is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._root_fd, number)

    def _only_threads_state(self) -> bytes | None:
        """None when the program has more than one thread.

        Count and state come from one reading, and children after it: a thread seen stopped has started no other since.
        """
        fields = _read(self._root_stat_fd).rpartition(b") ")[2].split()
        if not fields:
            return b""
        is_only = fields[_THREAD_COUNT] == b"1" and not _read(self._root_children_fd)
        return fields[0] if is_only else None

    def _pids(self) -> list[int]:
        """The root and all its descendants."""
        pids = [self.root_pid]
        for pid in pids:
            for thread in _threads(pid):
                pids += map(int, _read_path(f"/proc/{pid}/task/{thread}/children").split())
        return pids


def _read_ending(cause: _Cause | None, code: int, log: str, *, used_up_cpu: bool) -> tuple[Ending, int]:
    signal_number = code - 128 if 128 < code <= 128 + signal.SIGRTMAX else max(-code, 0)
    match cause:
        case _Cause.TIME:
            return Ending.TIMED_OUT, signal.SIGKILL
        case _Cause.SCRATCH:
            return Ending.SIGNALED, signal.SIGXFSZ
        case _Cause.REQUEST:
            return Ending.SIGNALED, signal.SIGKILL
    if signal_number == signal.SIGSYS:
        return Ending.FORBIDDEN_SYSTEM_CALL, signal_number
    if signal_number == signal.SIGXCPU or (signal_number == signal.SIGKILL and used_up_cpu):
        return Ending.TIMED_OUT, signal_number
    if signal_number == signal.SIGKILL or (code and any(words in log for words in _OUT_OF_MEMORY_WORDS)):
        return Ending.OUT_OF_MEMORY, signal_number or code
    if signal_number:
        return Ending.SIGNALED, signal_number
    return Ending.EXITED, code


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_stopped(pid: int) -> bool:
    return all(_state(_read_path(f"/proc/{pid}/task/{thread}/stat")) in _STOPPED for thread in _threads(pid))


def _state(stat: bytes) -> bytes:
    return stat.rpartition(b") ")[2][:1]


def _involuntary_switches(status: bytes) -> int:
    count = status.rpartition(b"nonvoluntary_ctxt_switches:")[2].strip()
    return int(count) if count else 0


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _read(descriptor: int) -> bytes:
    """The present content of a file in /proc, empty when its process is gone."""
    try:
        return os.pread(descriptor, 1 << 16, 0)
    except ProcessLookupError:
        return b""


def _read_path(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)
