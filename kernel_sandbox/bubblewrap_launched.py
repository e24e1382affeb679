"""BubblewrapProgram: what bwrap started, whose own process outside passes the program's status on."""

import contextlib
import os
import select
import signal
import subprocess

from kernel_sandbox.control_groups import ControlGroup, MemoryAccount
from kernel_sandbox.ending import host_oom_kills
from kernel_sandbox.launched import Reaped
from kernel_sandbox.sandbox import SandboxError

_LAST_BREATH_S = 5.0


class BubblewrapProgram:
    """See LaunchedProgram. `launcher` is bwrap's process outside the sandbox."""

    def __init__(self, launcher: "subprocess.Popen[bytes]", root_pid: int, group: ControlGroup | None) -> None:
        self.root_pid = root_pid
        self._launcher = launcher
        self.ended_fd = os.pidfd_open(launcher.pid)
        self._root_fd = os.pidfd_open(root_pid)
        self._group = group
        self._oom_kills = host_oom_kills() if group is None else 0

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._root_fd, signal.SIGKILL)

    def cpu_time_s(self) -> float | None:
        return None if self._group is None else self._group.account.cpu_time_s()

    def reap(self) -> Reaped:
        _, status, usage = os.wait4(self._launcher.pid, 0)
        self._launcher.returncode = os.waitstatus_to_exitcode(status)
        # The launcher may be faster than the kernel, which ends the namespace with its process 1.
        self.kill()
        is_over = self._is_over(_LAST_BREATH_S)
        memory = self._memory_account(usage.ru_maxrss << 10)
        os.close(self.ended_fd)
        os.close(self._root_fd)
        if not is_over:
            raise SandboxError(f"process {self.root_pid} was killed and does not end: the kernel holds it")
        return Reaped(status=self._launcher.returncode, cpu_s=usage.ru_utime + usage.ru_stime, memory=memory)

    def release(self) -> None:
        if self._group is not None:
            self._group.remove()

    def _is_over(self, seconds: float) -> bool:
        """Whether process 1 has ended, and with it all of its namespace."""
        poll = select.poll()
        poll.register(self._root_fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _memory_account(self, largest_process_bytes: int) -> MemoryAccount:
        """Without a group: whether the kernel ended any process on this machine, and our largest one."""
        if self._group is not None:
            return self._group.account.memory()
        was_killed = host_oom_kills() > self._oom_kills
        return MemoryAccount(was_killed=was_killed, met_its_limit=False, peak_bytes=largest_process_bytes)
