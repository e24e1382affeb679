"""BubblewrapSandbox: Linux namespaces without a daemon or privileges, through the `bwrap` program.

Inside: no network, a read-only /usr, /work and a small /tmp, no capabilities, no new privileges, no nested user
namespaces, a system call filter, rlimits. Memory is limited per process (RLIMIT_AS); there is no cgroup.
"""

import contextlib
import itertools
import json
import os
import random
import stat
import subprocess
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import IO

from kernel_sandbox.bubblewrap_program import advice_on, install_bwrap
from kernel_sandbox.process_tree import ProcessTree
from kernel_sandbox.sandbox import Ending, Finished, Limits, SandboxError, SandboxUnavailable
from kernel_sandbox.scratch import Scratch
from kernel_sandbox.system_calls import seccomp_filter

_INSIDE_ID = 65534
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/work",
    "TMPDIR": "/work",
    "USER": "nobody",
    "LANG": "C.UTF-8",
}
_SYSTEM_FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/sys/devices/system/cpu"),
)
_TMP_BYTES = 64 << 20
_SCRATCH_CHECK_S = 0.05

# As root, a session runs with a uid of its own where it can: the kernel exempts root's processes from RLIMIT_NPROC, and
# they could read root's files among those bound. The range is free in systemd's table (systemd.io/UIDS-GIDS).
_FIRST_SPARE_UID, _SPARE_UIDS = 60_600, 580
_uid_offsets = itertools.count(random.randrange(_SPARE_UIDS))


class BubblewrapSandbox:
    """Sessions may be opened from any thread; a program dies with the thread that started it (die-with-parent)."""

    name = "bubblewrap"

    def __init__(self) -> None:
        self._bwrap: Path | None = None
        self._tried: set[tuple[tuple[Path, str], ...]] = set()

    def check(self) -> None:
        """One tiny real run. Raises SandboxUnavailable with the fix when this machine cannot do it."""
        self.open(Limits()).close()

    def open(self, limits: Limits, read_only: Mapping[Path, str] | None = None) -> "BubblewrapSession":
        """Tries each set of `read_only` once: later a failure to start is the program's own."""
        if self._bwrap is None:
            self._bwrap = install_bwrap(self)
        read_only = read_only or {}
        for path in read_only:
            if not path.exists():
                raise SandboxError(f"{path} does not exist: it cannot be shown in a sandbox")
        if (mounts := tuple(read_only.items())) not in self._tried:
            with BubblewrapSession(self._bwrap, Limits(wall_s=20.0), read_only) as trial:
                finished = trial.run(["true"])
            if finished.ending is not Ending.EXITED or finished.exit_code != 0:
                raise SandboxUnavailable(advice_on(finished.log.strip()))
            self._tried.add(mounts)
        return BubblewrapSession(self._bwrap, limits, read_only)


class BubblewrapSession:
    def __init__(self, bwrap: Path, limits: Limits, read_only: Mapping[Path, str]) -> None:
        self._bwrap = bwrap
        self._limits = limits
        self._uid = _choose_uid(read_only)
        self._scratch = Scratch(self._uid)
        self._read_only = read_only
        self._trees: list[ProcessTree] = []

    def put(self, name: str, content: bytes) -> None:
        self._scratch.put(name, content)

    def get(self, name: str, limit_bytes: int = 64 << 20) -> bytes:
        return self._scratch.get(name, limit_bytes)

    def run(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
        tree = self._launch(argv, environment, stdin=subprocess.DEVNULL)
        while not tree.wait(_SCRATCH_CHECK_S):
            if self._scratch.size_bytes(self._limits.scratch_bytes) > self._limits.scratch_bytes:
                return tree.kill_for_scratch()
        return tree.kill()

    def start(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        file_descriptors: Sequence[int] = (),
        core: int | None = None,
    ) -> "BubblewrapProcess":
        """The program is process 1 of its namespace: signals that it sends to itself are ignored by the kernel."""
        inside_stdin, stdin = os.pipe()
        stdout, inside_stdout = os.pipe()
        try:
            tree = self._launch(
                argv,
                environment,
                stdin=inside_stdin,
                stdout=inside_stdout,
                file_descriptors=file_descriptors,
                core=core,
                options=("--as-pid-1",),
            )
        except SandboxError:
            os.close(stdin)
            os.close(stdout)
            raise
        finally:
            os.close(inside_stdin)
            os.close(inside_stdout)
        return BubblewrapProcess(tree, FileIO(stdin, "w"), FileIO(stdout, "r"))

    def close(self) -> None:
        """Idempotent."""
        for tree in self._trees:
            tree.kill()
        self._scratch.remove()

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
        options: Sequence[str] = (),
    ) -> ProcessTree:
        """Without `stdout` it goes to the log, as stderr does."""
        with contextlib.ExitStack() as stack:
            filter_fd = _open_filter(stack)
            info, info_write = _open_pipe(stack)
            log, log_write = _open_pipe(stack)
            go, go_write = _open_pipe(stack)
            command = [
                *(
                    ("setpriv", f"--reuid={self._uid}", f"--regid={self._uid}", "--clear-groups")
                    if self._uid != os.geteuid()
                    else ()
                ),
                *(("taskset", "-c", str(core)) if core is not None else ()),
                *(str(self._bwrap), *_NAMESPACES, *self._mounts(), *options),
                *("--seccomp", str(filter_fd), "--info-fd", str(info_write.fileno()), "--block-fd", str(go.fileno())),
                *("--", *_rlimits(self._limits), *argv),
            ]
            try:
                launcher = subprocess.Popen(
                    command,
                    env=_ENVIRONMENT | dict(environment or {}),
                    stdin=stdin,
                    stdout=log_write if stdout is None else stdout,
                    stderr=log_write,
                    pass_fds=(filter_fd, info_write.fileno(), go.fileno(), *file_descriptors),
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                raise SandboxUnavailable(f"no {error.filename} on this machine: install util-linux") from error
            info_write.close()
            log_write.close()
            try:
                tree = ProcessTree(
                    launcher,
                    _read_root_pid(info),
                    os.dup(log.fileno()),
                    log_bytes=self._limits.log_bytes,
                    wall_s=self._limits.wall_s,
                    cpu_s=self._limits.cpu_s,
                )
            except (ProcessLookupError, FileNotFoundError) as error:
                # Before `go`, bwrap alone ran.
                launcher.wait()
                raise SandboxUnavailable(advice_on(log.read().decode(errors="replace").strip())) from error
            go_write.write(b"!")
        self._trees.append(tree)
        return tree

    def _mounts(self) -> list[str]:
        sources = {Path(path): path for path in _SYSTEM_FOLDERS if os.path.exists(path)}
        options: list[str] = []
        for path in [path for path in sources if path.is_symlink()]:
            options += ["--symlink", os.readlink(path).lstrip("/"), sources.pop(path)]
        binds = [("--ro-bind", source, target) for source, target in sources.items()]
        binds.append(("--bind", self._scratch.path, "/work"))
        # After /work, under which the host may hold what is to be bound.
        binds += [("--ro-bind", source, target) for source, target in self._read_only.items()]
        for option, source, target in binds:
            options += [option, str(source), target]
        return [*options, "--chdir", "/work"]


class BubblewrapProcess:
    def __init__(self, tree: ProcessTree, stdin: FileIO, stdout: FileIO) -> None:
        self.stdin: IO[bytes] = stdin
        self.stdout: IO[bytes] = stdout
        self._tree = tree

    def freeze(self) -> None:
        self._tree.freeze()

    def thaw(self) -> None:
        self._tree.thaw()

    def involuntary_switches(self) -> int:
        return self._tree.involuntary_switches()

    def cpu_time_ns(self) -> int:
        return self._tree.cpu_time_ns()

    def kill(self, grace_s: float = 0.0) -> Finished:
        finished = self._tree.kill(grace_s)
        self.stdin.close()
        self.stdout.close()
        return finished


_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(_INSIDE_ID), "--gid", str(_INSIDE_ID)),
    *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", "sandbox"),
    *("--proc", "/proc", "--dev", "/dev", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp"),
)


def _rlimits(limits: Limits) -> tuple[str, ...]:
    # Set inside, after the user namespace was made: otherwise RLIMIT_NPROC would count all the user's processes.
    return (
        "prlimit",
        *((f"--as={limits.memory_bytes}",) if limits.limits_address_space else ()),
        *(f"--cpu={limits.cpu_s}:{limits.cpu_s + 1}", "--core=0"),
        *(f"--fsize={limits.scratch_bytes}", f"--nproc={limits.processes}", "--nofile=1024", "--"),
    )


def _read_root_pid(info: FileIO) -> int:
    text = info.read()
    if not text:
        raise ProcessLookupError("bwrap ended before it made a process")
    return int(json.loads(text)["child-pid"])


def _open_filter(stack: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create("seccomp")
    stack.callback(os.close, descriptor)
    os.write(descriptor, seccomp_filter())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _open_pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """(read, write)."""
    read, write = (FileIO(descriptor, mode) for descriptor, mode in zip(os.pipe(), "rw", strict=True))
    return stack.enter_context(read), stack.enter_context(write)


def _choose_uid(read_only: Mapping[Path, str]) -> int:
    """Ours, unless we are root and a spare uid can reach all that it needs."""
    if _is_root() and all(_is_open_to_all(path) for path in read_only):
        return _FIRST_SPARE_UID + next(_uid_offsets) % _SPARE_UIDS
    return os.geteuid()


def _is_open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents)


def _is_root() -> bool:
    return os.geteuid() == 0
