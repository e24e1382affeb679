"""The programs of a service over the null device, each started again when it ends, as a supervisor would."""

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.null_device.services import QUEUES
from benchmarks.null_device.stack import worker_command, worker_environment
from benchmarks.postgresql import NoPostgresql
from benchmarks.postgresql import postgresql_server as start_postgresql
from compiler_agent.child_processes import start_child, stop_children
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import answers
from tests import postgresql_server
from tests.workflows.dev_server import dev_server_command, free_port

AGAIN_AFTER_S = 0.1
ENDING_S = 10.0


class Restarted:
    """One program, for as long as the context lasts."""

    def __init__(self, name: str, start: Callable[[], AbstractContextManager[int]]) -> None:
        """`start` gives the pid of a child of this process, and ends it."""
        self.name, self.begun = name, 0
        self._start, self._pid = start, None
        self._stopping, self._may_run = threading.Event(), threading.Event()
        self._may_run.set()
        self._thread = threading.Thread(target=self._keep, name=f"restarts {name}", daemon=True)

    def __enter__(self) -> "Restarted":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._may_run.set()
        self._thread.join()

    def kill(self) -> bool:
        """False: it is just being started again."""
        if (pid := self._pid) is None:
            return False
        os.kill(pid, signal.SIGKILL)
        while self._pid == pid:
            time.sleep(0.01)
        return True

    @contextmanager
    def away(self) -> Iterator[None]:
        """Killed, and not started again within."""
        self._may_run.clear()
        while not self.kill():
            time.sleep(0.05)
        try:
            yield
        finally:
            self._may_run.set()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            # A server whose last process still holds its memory cannot start yet.
            with contextlib.suppress(NoPostgresql), self._start() as pid:
                self._pid, self.begun = pid, self.begun + 1
                while not self._stopping.is_set() and not _has_ended(pid):
                    time.sleep(0.02)
                self._pid = None
            self._may_run.wait()
            self._stopping.wait(AGAIN_AFTER_S)


def _has_ended(pid: int) -> bool:
    """Leaves it to whoever started it to reap it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@contextmanager
def open_folder() -> Iterator[Path]:
    """For a Service; it ends with the context."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


class Service:
    """Where all of it lives, and its programs by name."""

    def __init__(self, folder: Path, *options: str) -> None:
        """`folder` has a short path, as that of a socket, and is open to the users that PostgreSQL and sandboxed
        programs are."""
        self._options, self._database = options, folder / "database"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.port, self.board_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        server = postgresql_server.PostgresqlServer(self._database)
        self.settings = Settings(
            home=folder / "home",
            ledger_url=server.url("ledger"),
            temporal_address=self.address,
            temporal_namespace="default",
        )
        self.settings.home.mkdir()
        starts = {
            "postgresql": self._postgresql,
            "temporal": lambda: self._child("temporal", dev_server_command(self.settings.home, self.port)),
            **{queue: self._worker(queue, queue) for queue in QUEUES},
            "second device": self._worker("second device", "device"),
            "leaderboard": lambda: self._child("leaderboard", self._board_command()),
        }
        self.programs = {name: Restarted(name, start) for name, start in starts.items()}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Database and workflow server answer."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.programs["postgresql"])
            self._await(self._has_database)
            for name, program in self.programs.items():
                if name != "postgresql":
                    stack.enter_context(program)
            self._await(lambda: answers(self.address))
            yield

    def _worker(self, name: str, queue: str) -> Callable[[], AbstractContextManager[int]]:
        return lambda: self._child(name, worker_command([queue], self._options))

    @contextmanager
    def _child(self, name: str, command: list[str]) -> Iterator[int]:
        environment = worker_environment(self.settings, self.address) | {"TMPDIR": str(self.temporary)}
        child = start_child(command, self.settings.logs / f"{name}.log", environment)
        try:
            yield child.pid
        finally:
            stop_children([child], ENDING_S)

    @contextmanager
    def _postgresql(self) -> Iterator[int]:
        # A commit that was answered must be there after the server was killed; the machine itself is not.
        with start_postgresql(self._database, {**postgresql_server.SETTINGS, "synchronous_commit": "on"}) as server:
            with contextlib.suppress(Exception):
                server.run("CREATE DATABASE ledger")
            yield int((self._database / "files" / "postmaster.pid").read_text().split()[0])

    def _has_database(self) -> bool:
        return self.programs["postgresql"].begun > 0

    def _board_command(self) -> list[str]:
        return [sys.executable, "-m", "compiler_agent", "leaderboard", "--port", str(self.board_port)]

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 60.0
        while not condition():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"a program did not start: see {self.settings.logs}")
            time.sleep(0.05)
