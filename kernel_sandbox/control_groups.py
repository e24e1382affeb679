"""ControlGroups: limits on the memory, processes and CPU time of a whole tree of processes, where we may set them.

Found once, by trying: cgroup v2 below a group whose controllers were delegated to us, else v1 hierarchies that we can
write. Names and meanings of the files: the kernel's admin-guide/cgroup-v2 and cgroup-v1/{memory,pids,cpuacct}.
"""

import contextlib
import errno
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_sandbox.leftovers import left_behind_in, name_of_ours
from kernel_sandbox.sandbox import SandboxError

_REMOVAL_LIMIT_S = 5.0
_MOST_OF_MEMORY = 7 / 8
"""A group's limit is at most this share of the machine's memory, so that it is met before the machine's own end."""
_TRIAL_BYTES = 64 << 20
_LAST_CHARGE_BYTES = 4 << 20  # a huge page that did not fit, and what each core holds in advance

_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccount:
    """What the kernel counted for a tree."""

    was_killed: bool
    """A process was ended for want of memory, whoever's limit was met."""
    met_its_limit: bool
    peak_bytes: int


class GroupAccount:
    """What the kernel counts for the processes of one group, from the making of this account on; its peak is of the
    group's whole life."""

    def __init__(self, *, is_v2: bool, memory: Path, cpu: Path | None, limit_bytes: int) -> None:
        self._is_v2, self._memory, self._cpu, self._limit_bytes = is_v2, memory, cpu, limit_bytes
        self._cpu_before_s, self._kills_before, self._ooms_before = 0.0, 0, 0
        self._cpu_before_s = self.cpu_time_s()
        self._kills_before, self._ooms_before, _ = self._count()

    def anew(self) -> "GroupAccount":
        """From now on."""
        return GroupAccount(is_v2=self._is_v2, memory=self._memory, cpu=self._cpu, limit_bytes=self._limit_bytes)

    def memory(self) -> MemoryAccount:
        kills, ooms, peak_bytes = self._count()
        # Not memory.failcnt: newer kernels leave it at 0.
        met_v1_limit = peak_bytes > self._limit_bytes - _LAST_CHARGE_BYTES
        met_its_limit = ooms > self._ooms_before if self._is_v2 else met_v1_limit
        return MemoryAccount(was_killed=kills > self._kills_before, met_its_limit=met_its_limit, peak_bytes=peak_bytes)

    def cpu_time_s(self) -> float:
        """Of all that were in the group; 0 where the kernel does not count it."""
        if self._is_v2:
            used_s = _counters(self._memory / "cpu.stat").get("usage_usec", 0) / 1e6
        else:
            used_s = _number(self._cpu / "cpuacct.usage") / 1e9 if self._cpu else 0.0
        return used_s - self._cpu_before_s

    def _count(self) -> tuple[int, int, int]:
        """(processes ended for want of memory, how often the limit was met where that is counted, peak bytes)"""
        if self._is_v2:
            events = _counters(self._memory / "memory.events")
            return events.get("oom_kill", 0), events.get("oom", 0), _number(self._memory / "memory.peak")
        kills = _counters(self._memory / "memory.oom_control").get("oom_kill", 0)
        return kills, 0, _number(self._memory / "memory.max_usage_in_bytes")


class ControlGroup:
    """One group: a folder of the same name in each hierarchy, with what is started within `entered`, and its children.

    In v1 the thread that starts enters and leaves: moving a process that runs already takes the kernel a grace period
    of RCU (10 ms), moving oneself does not. In v2 a thread cannot; `add` moves the process, while bwrap makes mounts.
    """

    def __init__(self, groups: "ControlGroups", memory_bytes: int, processes: int) -> None:
        self._is_v2 = groups.is_v2
        self._limit_bytes = most_memory(memory_bytes, groups.machine_bytes)
        name = f"{name_of_ours()}-{next(_numbers)}"
        self.memory_folder, self._processes = groups.memory / name, groups.processes / name
        cpu = groups.cpu / name if groups.cpu else None
        self._folders: list[Path] = []
        try:
            for folder in dict.fromkeys((self.memory_folder, self._processes, cpu)):
                if folder is not None:
                    folder.mkdir()
                    self._folders.append(folder)
            self._limit_memory()
            # In v1 the launcher is in it too, and our own thread until it has left.
            _write(self._processes / "pids.max", processes if self._is_v2 else processes + 2)
        except OSError as error:
            self.remove()
            raise SandboxError(f"cannot make the control group {name}: {error}") from error
        self.account = GroupAccount(
            is_v2=self._is_v2, memory=self.memory_folder, cpu=cpu, limit_bytes=self._limit_bytes
        )

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        if self._is_v2:
            yield
            return
        try:
            self._move_own_thread(self._folders)
            yield
        finally:
            self._move_own_thread([folder.parent for folder in self._folders])

    def add(self, pid: int) -> None:
        """A process that was started within `entered`, before it starts others."""
        if not self._is_v2:
            return
        try:
            _write(self.memory_folder / "cgroup.procs", pid)
        except ProcessLookupError:
            raise
        except OSError as error:
            raise SandboxError(f"cannot put a process into {self.memory_folder.name}: {error}") from error

    def remove(self) -> None:
        """Ends what is still in it. Idempotent. Raises SandboxError when the kernel keeps it."""
        for folder in self._folders:
            _remove(folder)

    @staticmethod
    def _move_own_thread(folders: Sequence[Path]) -> None:
        try:
            for folder in folders:
                _write(folder / "tasks", 0)
        except OSError as error:
            raise SandboxError(f"cannot enter the control group {folder}: {error}") from error

    def _limit_memory(self) -> None:
        if self._is_v2:
            _write(self.memory_folder / "memory.max", self._limit_bytes)
            with contextlib.suppress(FileNotFoundError):  # a kernel without swap
                _write(self.memory_folder / "memory.swap.max", 0)
        else:
            _write(self.memory_folder / "memory.limit_in_bytes", self._limit_bytes)
            with contextlib.suppress(FileNotFoundError):
                _write(self.memory_folder / "memory.memsw.limit_in_bytes", self._limit_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroups:
    """Where groups of ours can be made; in v2 the three are one folder."""

    is_v2: bool
    memory: Path
    processes: Path
    cpu: Path | None
    machine_bytes: int
    """Memory that any group here can have: the machine's, or the limit of a group above (a container's)."""

    def make(self, memory_bytes: int, processes: int) -> ControlGroup:
        return ControlGroup(self, memory_bytes, processes)

    def describe(self) -> str:
        what = "memory, processes and CPU time" if self.is_v2 or self.cpu else "memory and processes"
        return f"cgroup v{2 if self.is_v2 else 1} limits {what} of the whole tree ({self.memory})"


def find_control_groups() -> ControlGroups | None:
    """The first place where a process can really be limited. Removes what crashed processes of ours left there."""
    for groups in _candidates():
        for folder in filter(None, {groups.memory, groups.processes, groups.cpu}):
            for left in left_behind_in(folder):
                with contextlib.suppress(SandboxError):
                    _remove(left)
        if _works(groups):
            return groups
    return None


def account_of(pid: int, limit_bytes: int) -> GroupAccount | None:
    """Of the groups that somebody else put a process into; None where they do not show here."""
    own, mounts = _groups_of(str(pid)), list(_mounts())
    for kind, _, root, point in mounts:
        if kind == "cgroup2" and "" in own:
            folder = point / os.path.relpath(own[""], root)
            if (folder / "memory.max").exists():
                return GroupAccount(is_v2=True, memory=folder, cpu=folder, limit_bytes=limit_bytes)
    v1 = _v1_folders(own, mounts)
    if "memory" in v1 and (v1["memory"] / "memory.limit_in_bytes").exists():
        return GroupAccount(is_v2=False, memory=v1["memory"], cpu=v1.get("cpuacct"), limit_bytes=limit_bytes)
    return None


def most_memory(wanted_bytes: int, available_bytes: int) -> int:
    """What a group may have, so that its limit is met before the machine's own end."""
    return min(wanted_bytes, int(available_bytes * _MOST_OF_MEMORY))


def available_bytes() -> int:
    """What programs can still take without swapping (proc_meminfo)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return machine_bytes()


def machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _candidates() -> Iterator[ControlGroups]:
    own = _groups_of("self")
    mounts = list(_mounts())
    for kind, _, root, point in mounts:
        if kind == "cgroup2" and "" in own:
            group = point / os.path.relpath(own[""], root)
            # Not our own group: in v2 one that holds processes has no groups with controllers below it.
            for parent in (group, *group.parents):
                if parent == point.parent:
                    break
                if {"memory", "pids"} <= set(_read(parent / "cgroup.subtree_control").split()):
                    limits = [_number(above / "memory.max") for above in (parent, *parent.parents)]
                    most = min([machine_bytes(), *filter(None, limits)])
                    yield ControlGroups(is_v2=True, memory=parent, processes=parent, cpu=parent, machine_bytes=most)
    v1 = _v1_folders(own, mounts)
    if "memory" in v1 and "pids" in v1:
        limit = _counters(v1["memory"] / "memory.stat").get("hierarchical_memory_limit", 0)
        most = min(machine_bytes(), limit or machine_bytes())
        # Mounted together with `cpu`, it would also give the program a scheduling share of its own, and change timings.
        cpu = v1.get("cpuacct") if v1.get("cpuacct") != v1.get("cpu") else None
        yield ControlGroups(is_v2=False, memory=v1["memory"], processes=v1["pids"], cpu=cpu, machine_bytes=most)


def _groups_of(process: str) -> dict[str, str]:
    """By controller; "" is the group of v2."""
    groups = {}
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _v1_folders(own: dict[str, str], mounts: list[tuple[str, list[str], str, Path]]) -> dict[str, Path]:
    """Where a process's groups show here, by controller."""
    return {
        controller: point / os.path.relpath(own[controller], root)
        for kind, options, root, point in mounts
        if kind == "cgroup"
        for controller in options
        if controller in own
    }


def _mounts() -> Iterator[tuple[str, list[str], str, Path]]:
    """(file system, its options, root within it, mount point)"""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        kind, _, options = source.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            _, _, _, root, point, *_ = mount.split(" ")
            yield kind, options.split(","), root, Path(point)


def _works(groups: ControlGroups) -> bool:
    """Whether a process can be put there: permissions alone do not tell."""
    try:
        group = groups.make(_TRIAL_BYTES, 8)
    except SandboxError:
        return False
    try:
        with group.entered():
            process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        with process:
            group.add(process.pid)
            return str(process.pid) in _read(group.memory_folder / "cgroup.procs").split()
    except (SandboxError, OSError):
        return False
    finally:
        group.remove()


def _remove(folder: Path) -> None:
    deadline_s = time.monotonic() + _REMOVAL_LIMIT_S
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            # Processes that were killed leave their group a moment after they are reaped.
            if error.errno != errno.EBUSY or time.monotonic() > deadline_s:
                raise SandboxError(f"cannot remove the control group {folder}: {error.strerror}") from error
            for pid in _read(folder / "cgroup.procs").split():
                with contextlib.suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.0005)


def _write(path: Path, value: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _read(path: Path) -> str:
    """Empty where the file is not there, as in a group of a kernel without that controller."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int:
    """0 where there is none, or no limit."""
    text = _read(path).strip()
    return int(text) if text.isdecimal() else 0


def _counters(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
