"""ProcessTree: every process of one sandbox, seen from the host: frozen, counted, ended, its log kept."""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable

from kernel_sandbox.control_groups import machine_bytes
from kernel_sandbox.ending import Cause, Evidence, read_ending
from kernel_sandbox.launched import LaunchedProgram
from kernel_sandbox.process_files import (
    STOPPED,
    is_stopped,
    read_again,
    read_path,
    signal_process,
    threads,
)
from kernel_sandbox.sandbox import Finished, Limits, SandboxError

FREEZE_LIMIT_S = 10.0
_CPU_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED, from linux/posix-timers.h: the clock id holds the inverted pid above it
_THREAD_COUNT = 17  # field 20 of /proc/PID/stat (proc(5)), counted from the state
_SCRATCH_CHECK_S, _SCRATCH_CHECK_SHARE = 0.05, 0.1
_CPU_CHECK_S = 0.1


class ProcessTree:
    """What `program` started, and itself: its root is process 1 of a pid namespace, whose orphans become its children.

    A daemon thread drains `log_fd` and kills when the tree is beyond its wall clock, its CPU time (where it is counted
    for all processes together; elsewhere the kernel limits each) or its scratch folder (`scratch_is_full`; None where
    the program cannot write).
    """

    def __init__(
        self,
        program: LaunchedProgram,
        log_fd: int,
        limits: Limits,
        *,
        machine_memory_bytes: int | None,
        scratch_is_full: Callable[[], bool] | None,
        is_first_process: bool,
    ) -> None:
        self.root_pid = root_pid = program.root_pid
        self._program = program
        self._root_fd = os.pidfd_open(root_pid)
        # Kept open: most programs are one thread, which is then stopped or counted in a few microseconds.
        self._root_stat_fd = os.open(f"/proc/{root_pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._root_children_fd = os.open(f"/proc/{root_pid}/task/{root_pid}/children", os.O_RDONLY | os.O_CLOEXEC)
        self._log_fd = log_fd
        self._limits = limits
        self._machine_bytes = machine_memory_bytes or machine_bytes()
        self._scratch_is_full = scratch_is_full
        self._is_first_process = is_first_process
        self._counts_cpu = program.cpu_time_s() is not None
        self._log = bytearray()
        self._started_s = time.monotonic()
        self._deadline_s = self._started_s + limits.wall_s
        self._cpu_check_s = self._started_s + limits.cpu_s / _cores()
        self._scratch_check_s = self._started_s + _SCRATCH_CHECK_S
        self._frozen_children: list[int] = []
        self._cause: Cause | None = None
        self._finished: Finished | SandboxError | None = None
        self._watcher = threading.Thread(target=self._watch, name="sandbox-watcher", daemon=True)
        self._watcher.start()

    def freeze(self) -> None:
        """Stops every thread. Raises SandboxError when processes appear faster than they can be stopped."""
        deadline_s = time.monotonic() + FREEZE_LIMIT_S
        self._signal_root(signal.SIGSTOP)
        while time.monotonic() < deadline_s:
            state = self._only_threads_state()
            if state is not None and state in STOPPED:
                self._frozen_children = []
                return
            if state is None:
                pids = self._pids()
                running = [pid for pid in pids if not is_stopped(pid)]
                if not running and self._pids() == pids:
                    self._frozen_children = pids[1:]
                    return
                for pid in running:
                    signal_process(pid, signal.SIGSTOP)
            os.sched_yield()
        raise SandboxError(f"the processes below {self.root_pid} cannot be frozen: they multiply or do not stop")

    def thaw(self) -> None:
        self._signal_root(signal.SIGCONT)
        for pid in self._frozen_children:
            signal_process(pid, signal.SIGCONT)
        self._frozen_children = []

    def cpu_time_ns(self) -> int:
        """Of process 1 alone; where the program may start others, they are not in it."""
        try:
            return time.clock_gettime_ns(~self.root_pid << 3 | _CPU_CLOCK_OF_PROCESS)
        except OSError:  # it has ended
            return 0

    def wait(self) -> Finished:
        """Until the program has ended by itself or by a limit. Raises as `kill` does."""
        self._watcher.join()
        return self.kill()

    def kill(self, grace_s: float = 0.0) -> Finished:
        """Idempotent; a program that ended by itself within `grace_s` keeps its own ending.

        Raises SandboxError, each time, when it had been killed from outside the sandbox.
        """
        self._watcher.join(grace_s)
        finished = self._end(Cause.REQUEST)
        if isinstance(finished, SandboxError):
            raise finished
        return finished

    def end(self) -> None:
        """As `kill`, for whom it is all the same how the program had ended. Raises SandboxError for what is left."""
        self._end(Cause.REQUEST)
        self._program.release()

    def _end(self, cause: Cause) -> Finished | SandboxError:
        if self._finished is None:
            if self._watcher.is_alive():
                self._cause = self._cause or cause
                self._program.kill()
            self._watcher.join()
            self._finished = self._reap()
        return self._finished

    def _watch(self) -> None:
        """Ends when the program has."""
        poll = select.poll()
        poll.register(self._log_fd, select.POLLIN)
        poll.register(self._program.ended_fd, select.POLLIN)
        while True:
            self._cause = self._cause or self._broken_limit()
            if self._cause is not None:
                self._program.kill()
                remaining_s = 1.0
            else:
                remaining_s = max(self._next_check_s() - time.monotonic(), 0.0)
            ready = {descriptor for descriptor, _ in poll.poll(remaining_s * 1000 + 1)}
            if self._log_fd in ready:
                piece = os.read(self._log_fd, 1 << 16)
                self._log += piece
                del self._log[: -self._limits.log_bytes]
                if not piece:
                    poll.unregister(self._log_fd)
            elif self._program.ended_fd in ready:
                return

    def _next_check_s(self) -> float:
        checks = [self._deadline_s]
        if self._counts_cpu:
            checks.append(self._cpu_check_s)
        if self._scratch_is_full is not None:
            checks.append(self._scratch_check_s)
        return min(checks)

    def _broken_limit(self) -> Cause | None:
        now_s = time.monotonic()
        if now_s >= self._deadline_s:
            return Cause.TIME
        if self._counts_cpu and now_s >= self._cpu_check_s:
            left_s = self._limits.cpu_s - (self._program.cpu_time_s() or 0.0)
            if left_s <= 0:
                return Cause.TIME
            # No earlier can all cores together use it up: a program that is measured is not woken up for this.
            self._cpu_check_s = now_s + max(left_s / _cores(), _CPU_CHECK_S)
        if self._scratch_is_full is not None and now_s >= self._scratch_check_s:
            if self._scratch_is_full():
                return Cause.SCRATCH
            checked_s = time.monotonic()
            self._scratch_check_s = checked_s + max(_SCRATCH_CHECK_S, (checked_s - now_s) / _SCRATCH_CHECK_SHARE)
        return None

    def _reap(self) -> Finished | SandboxError:
        for descriptor in (
            *(self._root_fd, self._log_fd),
            *(self._root_stat_fd, self._root_children_fd),
        ):
            os.close(descriptor)
        log = self._log.decode(errors="replace")
        try:
            reaped = self._program.reap()
            self._program.release()
            if self._cause is None and reaped.status and self._scratch_is_full is not None and self._scratch_is_full():
                self._cause = Cause.SCRATCH  # faster than our checks, it met the end of a file system
            evidence = Evidence(
                cause=self._cause,
                launcher_status=reaped.status,
                log=log,
                used_up_cpu=reaped.cpu_s >= self._limits.cpu_s,
                memory=reaped.memory,
                machine_bytes=self._machine_bytes,
                is_first_process=self._is_first_process,
            )
            ending, exit_code = read_ending(evidence)
        except SandboxError as error:
            return error
        return Finished(ending=ending, exit_code=exit_code, log=log, wall_s=time.monotonic() - self._started_s)

    def _signal_root(self, number: int) -> None:
        if self._finished is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._root_fd, number)

    def _only_threads_state(self) -> bytes | None:
        """None when the program has more than one thread.

        Count and state come from one reading, and children after it: a thread seen stopped has started no other since.
        """
        fields = read_again(self._root_stat_fd).rpartition(b") ")[2].split()
        if not fields:
            return b""
        is_only = fields[_THREAD_COUNT] == b"1" and not read_again(self._root_children_fd)
        return fields[0] if is_only else None

    def _pids(self) -> list[int]:
        """The root and all its descendants."""
        pids = [self.root_pid]
        for pid in pids:
            for thread in threads(pid):
                pids += map(int, read_path(f"/proc/{pid}/task/{thread}/children").split())
        return pids


def _cores() -> int:
    return os.cpu_count() or 1
