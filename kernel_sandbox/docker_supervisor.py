"""Supervisor: the host's end of the socket to a container's first process, kernel_sandbox/runners/supervisor.cpp."""

import hashlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import TracebackType

from kernel_sandbox.sandbox import SandboxError, SandboxUnavailable

_HEADER = struct.Struct("=7Q")
_LIMIT = struct.Struct("=3Q")
_RESULT = struct.Struct("=2Q")
_CREDENTIALS = struct.Struct("=iII")
_NO_CORE = _NO_LIMIT = (1 << 64) - 1
_MOST_BYTES = 1 << 20
_MOST_FOLDERS = 8
_TICK_S = 0.1


class Kind(IntEnum):
    RUN = 0
    """As a child, whose end is told."""
    BECOME = 1
    """In place of the supervisor, as process 1."""
    KILL = 2
    """All but the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A program to start. `descriptors` maps its numbers inside to ours."""

    kind: Kind
    argv: Sequence[str]
    environment: Mapping[str, str]
    limits: Mapping[int, tuple[int, int]]
    """(soft, hard) by RLIMIT_*; -1 for none."""
    descriptors: Mapping[int, int]
    system_call_filter: bytes
    core: int | None

    def encode(self) -> bytes:
        texts = [*self.argv, *(f"{name}={value}" for name, value in self.environment.items())]
        if any("\0" in text for text in texts):
            raise ValueError("an argument or variable holds a zero byte")
        return b"".join(
            [
                _HEADER.pack(
                    self.kind,
                    _NO_CORE if self.core is None else self.core,
                    len(self.limits),
                    len(self.descriptors),
                    len(self.system_call_filter),
                    len(self.argv),
                    len(self.environment),
                ),
                *(_LIMIT.pack(number, *map(_unsigned, values)) for number, values in self.limits.items()),
                struct.pack(f"={len(self.descriptors)}Q", *self.descriptors),
                self.system_call_filter,
                *(os.fsencode(text) + b"\0" for text in texts),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnded:
    status: int
    """Exit code, or 128 + n for signal n."""
    cpu_s: float


class Supervisor:
    """Orders go out one at a time; only a RUN is answered, when its program has ended."""

    def __init__(self, connection: socket.socket, pid: int, folders: Sequence[int]) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self.pid = pid
        """Of the container's first process, as seen from here."""
        self.folders = folders
        """Descriptors of the folders that it was started with, until `close`."""
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)

    @property
    def answer_fd(self) -> int:
        """Readable when a program that was to be run has ended, or the supervisor has."""
        return self._connection.fileno()

    def start(self, order: Order) -> None:
        """Raises SandboxError when there is no supervisor any more."""
        content = order.encode()
        if len(content) > _MOST_BYTES:
            raise SandboxError(f"{order.argv[0]}: arguments and environment of {len(content)} bytes are too long")
        try:
            with self._sending:
                socket.send_fds(self._connection, [content], list(order.descriptors.values()), socket.MSG_NOSIGNAL)
        except OSError as error:
            raise SandboxError(f"the container of this session has ended ({error.strerror}): open another") from error

    def kill(self) -> bool:
        """Ends all but the supervisor itself; False when it is gone."""
        order = _HEADER.pack(Kind.KILL, _NO_CORE, 0, 0, 0, 0, 0)
        try:
            with self._sending:
                self._connection.send(order, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def receive(self) -> ChildEnded | None:
        """How the program ended; None when the supervisor has ended first."""
        try:
            answer = self._connection.recv(_RESULT.size)
        except OSError:
            return None
        if len(answer) != _RESULT.size:
            return None
        status, cpu_us = _RESULT.unpack(answer)
        return ChildEnded(status=status, cpu_s=cpu_us / 1e6)

    def close(self) -> None:
        """A supervisor that has not become a program ends with it, and with the supervisor all in its container."""
        self._connection.close()
        for descriptor in self.folders:
            os.close(descriptor)


class SupervisorListener:
    """Awaits one supervisor at a socket in a folder that its container sees, and nobody else afterwards."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A socket's path may have 107 bytes only, the folder's any number.
            self._socket.bind(f"/proc/self/fd/{descriptor}/{name}")
        finally:
            os.close(descriptor)
        self._path.chmod(0o666)  # its uid inside is another; that it is who it is to be, we check
        self._socket.listen(4)

    def accept(self, expected_pid: Callable[[], int], limit_s: float) -> Supervisor:
        """`expected_pid` is asked while we wait, and raises when its container has ended.

        Raises SandboxUnavailable when somebody outside this pid namespace answers, SandboxError when nobody does.
        """
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            if not select.select([self._socket], [], [], _TICK_S)[0]:
                expected_pid()
                continue
            connection, _ = self._socket.accept()
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, _, _ = _CREDENTIALS.unpack(credentials)
            if pid == 0:
                connection.close()
                raise SandboxUnavailable(
                    "the Docker engine's processes cannot be seen from here, so they could not be stopped: run this "
                    "program outside a container, or with --pid=host"
                )
            if pid != expected_pid():
                connection.close()  # somebody else on this machine
                continue
            _, folders, _, _ = socket.recv_fds(connection, 1, _MOST_FOLDERS)
            return Supervisor(connection, pid, folders)
        raise SandboxError(f"the container's supervisor did not answer within {limit_s:g} s")

    def __enter__(self) -> "SupervisorListener":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def supervisor_source() -> bytes:
    return resources.files("kernel_sandbox.runners").joinpath("supervisor.cpp").read_bytes()


def supervisor_digest() -> str:
    """By which an image says for which version of the supervisor it was made."""
    return hashlib.sha256(supervisor_source()).hexdigest()


def _unsigned(value: int) -> int:
    return _NO_LIMIT if value < 0 else value
