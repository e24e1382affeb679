"""BubblewrapSandbox: Linux namespaces without a daemon or privileges, through the `bwrap` program.

Inside: no network, a read-only system, no capabilities, no new privileges, no nested user namespaces, a system call
filter. All that can be written (/scratch, /tmp, /dev/shm) is one watched folder of the host. Limits on memory,
processes and CPU time hold for the whole tree where there are control groups, else for each process (rlimits).
"""

import contextlib
import itertools
import os
import random
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_sandbox.bubblewrap_launch import Launch
from kernel_sandbox.bubblewrap_program import advice_on, install_bwrap
from kernel_sandbox.control_groups import ControlGroups, find_control_groups
from kernel_sandbox.process_tree import ProcessTree
from kernel_sandbox.sandbox import Ending, Finished, Limits, SandboxError, SandboxUnavailable
from kernel_sandbox.scratch import Scratch, remove_left_behind
from kernel_sandbox.started_process import StartedProcess, open_pipe

# As root, a session runs with a uid of its own where it can: the kernel exempts root's processes from RLIMIT_NPROC, and
# they could read root's files among those bound. The range is free in systemd's table (systemd.io/UIDS-GIDS).
_FIRST_SPARE_UID, _SPARE_UIDS = 60_600, 580
_uid_offsets = itertools.count(random.randrange(_SPARE_UIDS))


class BubblewrapSandbox:
    """Sessions may be opened from any thread; a program dies with the thread that started it (die-with-parent)."""

    name = "bubblewrap"

    def __init__(self, device_nodes: Sequence[Path] = ()) -> None:
        """`device_nodes` of /dev, such as `gpu_nodes`, are shown beside the few that every program gets."""
        self._bwrap: Path | None = None
        self._groups: ControlGroups | None = None
        self._device_nodes = tuple(device_nodes)
        self._tried: set[tuple[tuple[Path, str], ...]] = set()

    def check(self) -> None:
        """One tiny real run. Raises SandboxUnavailable with the fix when this machine cannot do it."""
        self.open(Limits()).close()

    def describe_limits(self) -> str:
        """One line: what holds a program's limits on this machine. Raises SandboxUnavailable."""
        self.check()
        if self._groups is not None:
            return self._groups.describe()
        return (
            "rlimits hold each process alone: no control group can be written (as a user: systemd-run --user --scope)"
        )

    def open(self, limits: Limits, read_only: Mapping[Path, str] | None = None) -> "BubblewrapSession":
        """Tries each set of `read_only` once: later a failure to start is the program's own."""
        if self._bwrap is None:
            remove_left_behind(Path(tempfile.gettempdir()))
            self._groups = find_control_groups()
            self._bwrap = install_bwrap(self)
        read_only = read_only or {}
        for path in read_only:
            if not path.exists():
                raise SandboxError(f"{path} does not exist: it cannot be shown in a sandbox")
        if (mounts := tuple(read_only.items())) not in self._tried:
            with BubblewrapSession(
                self._bwrap, self._groups, Limits(wall_s=20.0), read_only, self._device_nodes
            ) as trial:
                finished = trial.run(["true"])
            if finished.ending is not Ending.EXITED or finished.exit_code != 0:
                raise SandboxUnavailable(advice_on(finished.log.strip()))
            self._tried.add(mounts)
        return BubblewrapSession(self._bwrap, self._groups, limits, read_only, self._device_nodes)


class BubblewrapSession:
    def __init__(
        self,
        bwrap: Path,
        groups: ControlGroups | None,
        limits: Limits,
        read_only: Mapping[Path, str],
        device_nodes: tuple[Path, ...],
    ) -> None:
        self._bwrap = bwrap
        self._groups = groups
        self._limits = limits
        self._uid = _choose_uid(read_only)
        self._scratch = Scratch(self._uid)
        self._read_only = read_only
        self._device_nodes = device_nodes
        self._trees: list[ProcessTree] = []

    def put(self, name: str, content: bytes) -> None:
        self._scratch.put(name, content)

    def get(self, name: str, limit_bytes: int = 64 << 20) -> bytes:
        return self._scratch.get(name, limit_bytes)

    def run(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
        finished = self._launch(argv, environment, stdin=subprocess.DEVNULL).wait()
        if finished.ending is not Ending.EXITED or finished.exit_code != 0:
            self._scratch.require_room(1)
        return finished

    def start(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        file_descriptors: Sequence[int] = (),
        core: int | None = None,
    ) -> StartedProcess:
        """The program is process 1 of its namespace: signals that it sends to itself are ignored by the kernel.

        So nobody inside can end it by SIGKILL, and where somebody outside does, `kill` raises.
        """
        with contextlib.ExitStack() as inside, contextlib.ExitStack() as ours:
            inside_stdin, stdin = open_pipe(inside, ours)
            stdout, inside_stdout = open_pipe(ours, inside)
            tree = self._launch(
                argv,
                environment,
                stdin=inside_stdin.fileno(),
                stdout=inside_stdout.fileno(),
                file_descriptors=file_descriptors,
                core=core,
                is_first_process=True,
            )
            ours.pop_all()
        return StartedProcess(tree, stdin, stdout)

    def close(self) -> None:
        """Idempotent. Raises SandboxError when something cannot be removed."""
        with contextlib.ExitStack() as everything:
            everything.callback(self._scratch.remove)
            for tree in self._trees:
                everything.callback(tree.end)

    def __enter__(self) -> "BubblewrapSession":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _launch(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None,
        *,
        stdin: int,
        stdout: int | None = None,
        file_descriptors: Sequence[int] = (),
        core: int | None = None,
        is_first_process: bool = False,
    ) -> ProcessTree:
        self._scratch.require_room(self._limits.scratch_bytes)
        launch = Launch(
            bwrap=self._bwrap,
            groups=self._groups,
            limits=self._limits,
            uid=self._uid,
            scratch=self._scratch,
            read_only=self._read_only,
            device_nodes=self._device_nodes,
            core=core,
            is_first_process=is_first_process,
        )
        tree = launch.start(argv, environment or {}, stdin=stdin, stdout=stdout, file_descriptors=file_descriptors)
        self._trees.append(tree)
        return tree


def _choose_uid(read_only: Mapping[Path, str]) -> int:
    """Ours, unless we are root and a spare uid can reach all that it needs."""
    if _is_root() and all(_is_open_to_all(path) for path in read_only):
        return _FIRST_SPARE_UID + next(_uid_offsets) % _SPARE_UIDS
    return os.geteuid()


def _is_open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents)


def _is_root() -> bool:
    return os.geteuid() == 0
