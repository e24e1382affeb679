"""SupervisedContainer: one container of one session, its scratch folders, and the programs that run in it."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_sandbox.control_groups import MemoryAccount, account_of, available_bytes
from kernel_sandbox.docker_engine import Engine
from kernel_sandbox.docker_profile import INODE_BYTES, SOCKET, SOCKET_FOLDER, container_config, memory_limit_bytes
from kernel_sandbox.docker_supervisor import SupervisorListener
from kernel_sandbox.launched import Reaped
from kernel_sandbox.leftovers import name_of_ours
from kernel_sandbox.process_files import threads
from kernel_sandbox.sandbox import SCRATCH, Limits, SandboxError, SandboxUnavailable
from kernel_sandbox.scratch import Scratch, put_file, take_file

_START_LIMIT_S = 60.0
_PATIENT_KILLS = 5
_LAST_BREATH_S = 10.0
_LATE_NEWS_S, _NEWS_TICK_S = 0.5, 0.02
_KILLED_STATUS = 128 + signal.SIGKILL


class SupervisedContainer:
    """Started, with its supervisor waiting. Raises SandboxUnavailable when this engine cannot, with the fix."""

    def __init__(
        self,
        engine: Engine,
        image_id: str,
        limits: Limits,
        *,
        user: str,
        read_only: Mapping[Path, str],
        gpus: Sequence[str],
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._folder = Scratch(os.geteuid())
        with contextlib.ExitStack() as undo:
            undo.callback(self._folder.remove)
            sockets = self._folder.path / "supervisor"
            sockets.mkdir(mode=0o711)
            sockets.chmod(0o711)
            shown = {**read_only, sockets: SOCKET_FOLDER}
            if not limits.scratch_bytes:
                self._folder.work.chmod(0o755)
                shown[self._folder.work] = SCRATCH
            with SupervisorListener(sockets, SOCKET) as listener:
                self.id = engine.create(
                    container_config(image_id, limits, user=user, owner=name_of_ours(), read_only=shown, gpus=gpus)
                )
                undo.callback(engine.remove, self.id)
                engine.start(self.id)
                self.supervisor = listener.accept(self._running_pid, _START_LIMIT_S)
            undo.callback(self.supervisor.close)
            self.root_fd = os.pidfd_open(self.supervisor.pid)
            undo.callback(os.close, self.root_fd)
            self._require_power()
            account = account_of(self.supervisor.pid, memory_limit_bytes(limits))
            if account is None:
                raise SandboxUnavailable(
                    "the control groups of this engine's containers do not show under /sys/fs/cgroup here, so memory "
                    "and CPU time of a program could not be told: run this program outside a container"
                )
            undo.pop_all()
        self.account = account
        self._is_closed = False

    def put(self, name: str, content: bytes) -> None:
        try:
            put_file(self._work_fd, name, content)
        except OSError as error:
            raise SandboxError(f"{SCRATCH}/{name} of {len(content)} bytes cannot be put: {error.strerror}") from error

    def get(self, name: str, limit_bytes: int) -> bytes:
        return take_file(self._work_fd, name, limit_bytes)

    def scratch_is_full(self) -> bool:
        """More was written than allowed, files counted as `INODE_BYTES` at least; also when the container has ended."""
        total = 0
        for descriptor in self.supervisor.folders:
            found = os.statvfs(descriptor)
            used_bytes = (found.f_blocks - found.f_bfree) * found.f_frsize
            # The root of each file system is one of its inodes.
            total += max(used_bytes, (found.f_files - found.f_ffree - 1) * INODE_BYTES)
        return total > self._limits.scratch_bytes

    def require_room(self) -> None:
        """Raises SandboxError when the machine has less memory free than the scratch folders may take."""
        free_bytes = available_bytes()
        if free_bytes < self._limits.scratch_bytes:
            raise SandboxError(
                f"this machine has {free_bytes >> 20} MiB of memory free, a sandbox needs "
                f"{self._limits.scratch_bytes >> 20} MiB of it for files: end other programs"
            )

    def require_alive(self) -> None:
        """Raises SandboxError when the first process has ended: its pid may be another's by now."""
        if select.select([self.root_fd], [], [], 0)[0]:
            raise SandboxError("the container of this session has ended: open another")

    def keep_engine_off(self, core: int) -> None:
        """The engine's own process beside the container, its first process's parent, is woken up by each stop and go:
        on the core of a program that is measured it would take some 25 us of each sample.

        Raises SandboxUnavailable where we may not: it would look as if the program were at fault.
        """
        parent = int(Path(f"/proc/{self.supervisor.pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])
        others = os.sched_getaffinity(parent) - {core}
        if parent <= 1 or not others:
            return
        try:
            for _ in range(2):  # a thread that was started meanwhile by one that had not been moved
                for thread in threads(parent):
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setaffinity(int(thread), others)
        except PermissionError as error:
            raise SandboxUnavailable(
                f"this user may not keep process {parent} of the Docker engine off core {core}, where it would disturb "
                "what is measured: use an engine of your own (dockerd-rootless-setuptool.sh install), or be root"
            ) from error

    def exit_status(self) -> tuple[int, bool]:
        """Of the ended first process, as (status, whether the engine saw its memory run out)."""
        status = self._engine.wait(self.id)
        deadline_s = time.monotonic() + _LATE_NEWS_S
        while True:
            was_out_of_memory = self._engine.state(self.id).was_out_of_memory
            # The engine hears of both by different ways, of memory perhaps a little later.
            if was_out_of_memory or status != _KILLED_STATUS or time.monotonic() > deadline_s:
                return status, was_out_of_memory
            time.sleep(_NEWS_TICK_S)

    def close(self) -> None:
        """Idempotent. Raises SandboxError when something cannot be removed."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.ExitStack() as everything:
            everything.callback(self._folder.remove)
            everything.callback(os.close, self.root_fd)
            everything.callback(self._engine.remove, self.id)
            everything.callback(self.supervisor.close)

    @property
    def _work_fd(self) -> int:
        return self.supervisor.folders[0] if self.supervisor.folders else self._folder.directory_fd

    def _running_pid(self) -> int:
        state = self._engine.state(self.id)
        if not state.is_running:
            raise SandboxUnavailable(
                f"the container ended before its supervisor answered (status {state.exit_code}) {state.error}: build "
                "the image again with compiler-agent sandbox build-image cpu (or cuda)"
            )
        return state.pid

    def _require_power(self) -> None:
        try:
            signal.pidfd_send_signal(self.root_fd, 0)
        except PermissionError as error:
            raise SandboxUnavailable(
                f"this user may not stop process {self.supervisor.pid} of the container: use an engine of your own "
                "(dockerd-rootless-setuptool.sh install), or one without userns-remap"
            ) from error


class RunningProgram:
    """See LaunchedProgram. A child of the supervisor: killing it leaves container and scratch folders to the next."""

    def __init__(self, container: SupervisedContainer) -> None:
        self._container = container
        self._kills = 0
        self.root_pid = container.supervisor.pid
        self.ended_fd = container.supervisor.answer_fd
        self._account = container.account.anew()

    def kill(self) -> None:
        """By the supervisor; should it not come to it, together with the supervisor."""
        self._kills += 1
        if not self._container.supervisor.kill() or self._kills > _PATIENT_KILLS:
            _kill(self._container.root_fd)

    def cpu_time_s(self) -> float:
        return self._account.cpu_time_s()

    def reap(self) -> Reaped:
        memory = self._account.memory()
        ended = self._container.supervisor.receive()
        if ended is None:
            return Reaped(status=-signal.SIGKILL, cpu_s=0.0, memory=memory)
        return Reaped(status=ended.status, cpu_s=ended.cpu_s, memory=memory)

    def release(self) -> None:
        """The container goes with the session."""


class StartedProgram:
    """See LaunchedProgram. The container's first process itself."""

    def __init__(self, container: SupervisedContainer) -> None:
        self._container = container
        self.root_pid = container.supervisor.pid
        self.ended_fd = container.root_fd
        self._account = container.account.anew()
        self._cpu_s = 0.0

    def kill(self) -> None:
        _kill(self.ended_fd)

    def cpu_time_s(self) -> float:
        # The group is gone with its last process, what it had used is not.
        self._cpu_s = max(self._cpu_s, self._account.cpu_time_s())
        return self._cpu_s

    def reap(self) -> Reaped:
        """Asks the engine, who alone is told how it ended."""
        poll = select.poll()
        poll.register(self.ended_fd, select.POLLIN)
        if not poll.poll(_LAST_BREATH_S * 1000):
            raise SandboxError(f"process {self.root_pid} was killed and does not end: the kernel holds it")
        status, was_out_of_memory = self._container.exit_status()
        # The engine does not tell whose limit it was: the container's own is met before the machine's end.
        memory = MemoryAccount(was_killed=was_out_of_memory, met_its_limit=was_out_of_memory, peak_bytes=0)
        return Reaped(status=status, cpu_s=self._cpu_s, memory=memory)

    def release(self) -> None:
        """The container goes with the session."""


def _kill(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
