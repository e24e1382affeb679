"""Launch: one program under bwrap: its command line, and the limits that are set before the program gets to run."""

import contextlib
import json
import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import FileIO
from pathlib import Path

from kernel_sandbox.bubblewrap_launched import BubblewrapProgram
from kernel_sandbox.bubblewrap_program import advice_on
from kernel_sandbox.control_groups import ControlGroup, ControlGroups
from kernel_sandbox.process_tree import ProcessTree
from kernel_sandbox.program_setting import ENVIRONMENT, resource_limits
from kernel_sandbox.sandbox import SCRATCH, Limits, SandboxError, SandboxUnavailable
from kernel_sandbox.scratch import Scratch
from kernel_sandbox.started_process import open_pipe
from kernel_sandbox.system_calls import seccomp_filter

_INSIDE_ID = 65534
_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(_INSIDE_ID), "--gid", str(_INSIDE_ID)),
    *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", "sandbox"),
    *("--proc", "/proc", "--dev", "/dev"),
)
_SYSTEM_FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/sys/devices/system/cpu"),
)
# What the kernel shows a user of his keys elsewhere, and root of the kernel; each costs 0.1 ms to hide. What in /proc
# could be written, bwrap itself makes read-only.
_HIDDEN_FROM_ALL = ("/proc/keys",)
_HIDDEN_FROM_ROOT = ("/proc/key-users", "/proc/kallsyms", "/proc/kcore", "/proc/timer_list", "/proc/slabinfo")
_OPTIONS = {
    resource.RLIMIT_AS: "as",
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_CORE: "core",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NPROC: "nproc",
    resource.RLIMIT_NOFILE: "nofile",
}
_CAP_SYS_RESOURCE = 24  # linux/capability.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    bwrap: Path
    groups: ControlGroups | None
    limits: Limits
    uid: int
    scratch: Scratch
    read_only: Mapping[Path, str]
    device_nodes: tuple[Path, ...]
    core: int | None
    is_first_process: bool

    def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: int,
        stdout: int | None,
        file_descriptors: Sequence[int],
    ) -> ProcessTree:
        """Without `stdout` it goes to the log, as stderr does. Raises SandboxUnavailable when bwrap does not work."""
        with contextlib.ExitStack() as stack, contextlib.ExitStack() as undo:
            filter_fd = self._open_filter(stack)
            info, info_write = open_pipe(stack, stack)
            log, log_write = open_pipe(stack, stack)
            go, go_write = open_pipe(stack, stack)
            control = ("--seccomp", filter_fd, "--info-fd", info_write.fileno(), "--block-fd", go.fileno())
            group = None
            if self.groups is not None:
                group = self.groups.make(self.limits.memory_bytes, self.limits.processes)
                undo.callback(group.remove)
            try:
                with group.entered() if group else contextlib.nullcontext():
                    launcher = subprocess.Popen(
                        [*self._as_user(), *self._bwrap(), *map(str, control), "--", *self._finder(), *argv],
                        env=ENVIRONMENT | dict(environment),
                        stdin=stdin,
                        stdout=log_write if stdout is None else stdout,
                        stderr=log_write,
                        pass_fds=(filter_fd, info_write.fileno(), go.fileno(), *file_descriptors),
                        start_new_session=True,
                    )
            except FileNotFoundError as error:
                raise SandboxUnavailable(_missing(error)) from error
            undo.callback(launcher.wait)
            undo.callback(launcher.kill)
            info_write.close()
            log_write.close()
            try:
                tree = self._limit(launcher, info, log, group)
            except (ProcessLookupError, FileNotFoundError) as error:
                # Before `go`, bwrap alone ran; where it still does, its log has no end.
                launcher.kill()
                raise SandboxUnavailable(advice_on(log.read().decode(errors="replace").strip())) from error
            undo.pop_all()
            go_write.write(b"!")
        return tree

    def _limit(
        self, launcher: "subprocess.Popen[bytes]", info: FileIO, log: FileIO, group: ControlGroup | None
    ) -> ProcessTree:
        """Between the making of the namespaces and the start of the program."""
        root_pid = _read_root_pid(info)
        # Not before it has a user namespace: there RLIMIT_NPROC counts this sandbox's processes alone. From outside,
        # since the program may not touch limits: one that ran into a CPU limit of its own making would look killed.
        self._set_rlimits(root_pid)
        if group is not None:
            group.add(root_pid)
        return ProcessTree(
            BubblewrapProgram(launcher, root_pid, group),
            os.dup(log.fileno()),
            self.limits,
            machine_memory_bytes=self.groups.machine_bytes if self.groups else None,
            scratch_is_full=self._scratch_is_full if self.limits.scratch_bytes else None,
            is_first_process=self.is_first_process,
        )

    def _as_user(self) -> list[str]:
        options: list[str] = []
        if self.uid != os.geteuid():
            options += ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        if self.core is not None:
            options += ["taskset", "-c", str(self.core)]
        return options

    def _finder(self) -> tuple[str, ...]:
        """Makes 127 the status of a program that is not there, as every shell does; bwrap itself says 1."""
        return () if self.is_first_process else ("env",)

    def _bwrap(self) -> list[str]:
        options = [str(self.bwrap), *_NAMESPACES]
        sources = {Path(path): path for path in _SYSTEM_FOLDERS if os.path.exists(path)}
        for path in [path for path in sources if path.is_symlink()]:
            options += ["--symlink", os.readlink(path).lstrip("/"), sources.pop(path)]
        binds = [("--ro-bind", source, target) for source, target in sources.items()]
        if self.limits.scratch_bytes:
            binds += [("--bind", source, target) for target, source in self.scratch.folders.items()]
        else:
            binds.append(("--ro-bind", self.scratch.work, SCRATCH))
        # After the scratch folder, under which the host may hold what is to be bound.
        binds += [("--ro-bind", source, target) for source, target in self.read_only.items()]
        hidden = (*_HIDDEN_FROM_ALL, *(_HIDDEN_FROM_ROOT if self.uid == 0 else ()))
        binds += [("--ro-bind", Path("/dev/null"), path) for path in hidden if os.path.exists(path)]
        binds += [("--dev-bind", node, str(node)) for node in self.device_nodes]
        for option, source, target in binds:
            options += [option, str(source), target]
        if self.is_first_process:
            options.append("--as-pid-1")
        return [*options, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH]

    def _open_filter(self, stack: contextlib.ExitStack) -> int:
        program = seccomp_filter(may_exit_as_killed=not self.is_first_process)
        descriptor = os.memfd_create("seccomp")
        stack.callback(os.close, descriptor)
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _set_rlimits(self, pid: int) -> None:
        if self.uid == os.geteuid() or _may_limit_others():
            for number, values in _rlimits(self.limits).items():
                resource.prlimit(pid, number, values)
            return
        options = (f"--{_OPTIONS[number]}={soft}:{hard}" for number, (soft, hard) in _rlimits(self.limits).items())
        command = [*self._as_user(), "prlimit", "--pid", str(pid), *options]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise SandboxUnavailable(_missing(error)) from error
        if finished.returncode != 0:
            raise SandboxError(f"cannot limit a sandboxed process: {finished.stderr.strip()}")

    def _scratch_is_full(self) -> bool:
        return self.scratch.size_bytes(self.limits.scratch_bytes) > self.limits.scratch_bytes


def _rlimits(limits: Limits) -> dict[int, tuple[int, int]]:
    return resource_limits(limits) | {resource.RLIMIT_NPROC: (limits.processes, limits.processes)}


@lru_cache(maxsize=1)
def _may_limit_others() -> bool:
    """False for the root of most containers."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> _CAP_SYS_RESOURCE & 1)


def _missing(error: FileNotFoundError) -> str:
    return f"no {error.filename} on this machine: install util-linux"


def _read_root_pid(info: FileIO) -> int:
    text = info.read()
    if not text:
        raise ProcessLookupError("bwrap ended before it made a process")
    return int(json.loads(text)["child-pid"])
