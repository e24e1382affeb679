"""DockerSandbox: containers of an engine on this machine, one for each session, never used again.

Inside: no network, a read-only root, nobody's uid, no capabilities, no new privileges, Docker's seccomp profile and
below it the system call filter that bubblewrap's programs get, limits on memory, processes and CPU time that hold for
all processes together. What can be written are file systems in memory, which end with the container. A supervisor
(`docker_supervisor`) starts programs inside, so that pipes and shared memory reach them as if they were our children.
"""

import contextlib
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kernel_sandbox.docker_container import RunningProgram, StartedProgram, SupervisedContainer
from kernel_sandbox.docker_engine import Engine, EngineFacts, connect_engine
from kernel_sandbox.docker_profile import NOBODY, OWNER_LABEL, device_requests
from kernel_sandbox.docker_supervisor import Kind, Order, supervisor_digest
from kernel_sandbox.launched import LaunchedProgram
from kernel_sandbox.leftovers import is_left_behind
from kernel_sandbox.process_tree import ProcessTree
from kernel_sandbox.program_setting import ENVIRONMENT, resource_limits
from kernel_sandbox.sandbox import Ending, Finished, Limits, SandboxError, SandboxUnavailable
from kernel_sandbox.scratch import remove_left_behind
from kernel_sandbox.started_process import StartedProcess, open_pipe
from kernel_sandbox.system_calls import seccomp_filter

SUPERVISOR_LABEL = "kernel-sandbox.supervisor"
"""Of an image: the digest of the source of the supervisor in it."""
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")
_TOOLKIT_VERSION = re.compile(r"version (\d+)\.(\d+)\.(\d+)")
_SAFE_TOOLKIT = (1, 17, 8)
"""Older ones let an image take over the machine: CVE-2024-0132, CVE-2025-23359, CVE-2025-23266."""


class DockerSandbox:
    """Sessions may be opened from any thread.

    `image_id` is an image's sha256, made by `docker_image`; `gpus` are what its containers get (`device_requests`): a
    sandbox for compilers needs none. Raises ValueError for what is neither.
    """

    name = "docker"

    def __init__(
        self,
        image_id: str,
        gpus: Sequence[str] = (),
        connect: Callable[[], Engine] = connect_engine,
    ) -> None:
        if not _IMAGE_ID.fullmatch(image_id):
            raise ValueError(f"{image_id!r} is not the sha256 of an image: names may change what they mean")
        device_requests(gpus)
        self._image_id = image_id
        self._gpus = tuple(gpus)
        self._image_name = "cuda" if gpus else "cpu"
        self._connect = connect
        self._ready: tuple[Engine, EngineFacts] | None = None
        self._readying = threading.Lock()

    def describe_limits(self) -> str:
        """One line: what holds a program's limits on this machine. Raises SandboxUnavailable."""
        with self.open(Limits()) as session:
            finished = session.run(["true"])
        if finished.ending is not Ending.EXITED or finished.exit_code != 0:
            raise SandboxUnavailable(
                f"nothing runs in the image {self._image_id} ({finished.log.strip()}): build it again with "
                f"compiler-agent sandbox build-image {self._image_name}"
            )
        engine, facts = self._engine()
        kind = "rootless, " if facts.is_rootless else ""
        return (
            f"engine {facts.version} ({kind}{engine.address}) limits memory, processes and CPU time of the whole tree; "
            f"image {self._image_id[:19]}"
        )

    def open(self, limits: Limits, read_only: Mapping[Path, str] | None = None) -> "DockerSession":
        engine, facts = self._engine()
        read_only = read_only or {}
        for path in read_only:
            if not path.exists():
                raise SandboxError(f"{path} does not exist: it cannot be shown in a sandbox")
        container = SupervisedContainer(
            engine, self._image_id, limits, user=_user(facts), read_only=read_only, gpus=self._gpus
        )
        return DockerSession(container, limits)

    def _engine(self) -> tuple[Engine, EngineFacts]:
        with self._readying:
            if self._ready is None:
                engine = self._connect()
                facts = engine.facts()
                require_protection(facts)
                _require_image(engine, self._image_id, self._image_name)
                if self._gpus:
                    require_safe_toolkit()
                remove_containers_left_behind(engine)
                remove_left_behind(Path(tempfile.gettempdir()))
                self._ready = engine, facts
            return self._ready


class DockerSession:
    """The container's own life. A started program takes its place: it is the session's last."""

    def __init__(self, container: SupervisedContainer, limits: Limits) -> None:
        self._container = container
        self._limits = limits
        self._trees: list[ProcessTree] = []
        self._running = threading.Lock()

    def put(self, name: str, content: bytes) -> None:
        self._container.put(name, content)

    def get(self, name: str, limit_bytes: int = 64 << 20) -> bytes:
        return self._container.get(name, limit_bytes)

    def run(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
        with self._running, open(os.devnull, "rb") as nothing:
            return self._launch(Kind.RUN, argv, environment, stdin=nothing.fileno(), stdout=None).wait()

    def start(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        file_descriptors: Sequence[int] = (),
        core: int | None = None,
    ) -> StartedProcess:
        """The program is process 1 of its namespace: signals that it sends to itself are ignored by the kernel."""
        with contextlib.ExitStack() as inside, contextlib.ExitStack() as ours:
            inside_stdin, stdin = open_pipe(inside, ours)
            stdout, inside_stdout = open_pipe(ours, inside)
            tree = self._launch(
                Kind.BECOME,
                argv,
                environment,
                stdin=inside_stdin.fileno(),
                stdout=inside_stdout.fileno(),
                file_descriptors=file_descriptors,
                core=core,
            )
            ours.pop_all()
        return StartedProcess(tree, stdin, stdout)

    def close(self) -> None:
        """Idempotent. Raises SandboxError when something cannot be removed."""
        with contextlib.ExitStack() as everything:
            everything.callback(self._container.close)
            for tree in self._trees:
                everything.callback(tree.end)

    def __enter__(self) -> "DockerSession":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _launch(
        self,
        kind: Kind,
        argv: Sequence[str],
        environment: Mapping[str, str] | None,
        *,
        stdin: int,
        stdout: int | None,
        file_descriptors: Sequence[int] = (),
        core: int | None = None,
    ) -> ProcessTree:
        container = self._container
        container.require_room()
        is_first_process = kind is Kind.BECOME
        with contextlib.ExitStack() as stack:
            log, log_write = open_pipe(stack, stack)
            descriptors = {0: stdin, 1: log_write.fileno() if stdout is None else stdout, 2: log_write.fileno()}
            order = Order(
                kind=kind,
                argv=argv,
                environment=ENVIRONMENT | dict(environment or {}),
                limits=resource_limits(self._limits),
                descriptors=descriptors | {descriptor: descriptor for descriptor in file_descriptors},
                system_call_filter=seccomp_filter(may_exit_as_killed=not is_first_process),
                core=core,
            )
            container.require_alive()
            if core is not None:
                container.keep_engine_off(core)
            program: LaunchedProgram = StartedProgram(container) if is_first_process else RunningProgram(container)
            # Watched before it starts: it may have ended in no time.
            tree = ProcessTree(
                program,
                os.dup(log.fileno()),
                self._limits,
                machine_memory_bytes=None,
                scratch_is_full=container.scratch_is_full if self._limits.scratch_bytes else None,
                is_first_process=is_first_process,
            )
            self._trees.append(tree)
            container.supervisor.start(order)
        return tree


def remove_containers_left_behind(engine: Engine) -> None:
    """Those of processes of this pid namespace that are gone; others' containers stay, whosever engine it is."""
    for container_id, owner in engine.containers_with(OWNER_LABEL).items():
        if is_left_behind(owner):
            with contextlib.suppress(SandboxError):
                engine.remove(container_id)


def require_safe_toolkit(program: str = "nvidia-ctk") -> None:
    """Raises SandboxUnavailable for a NVIDIA Container Toolkit with known ways out; where none can be asked, it is
    the engine's refusal that tells."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    found = _TOOLKIT_VERSION.search(said)
    if found is not None and (version := tuple(map(int, found.groups()))) < _SAFE_TOOLKIT:
        raise SandboxUnavailable(
            f"the NVIDIA Container Toolkit {'.'.join(map(str, version))} lets a container take over the machine "
            "(CVE-2025-23266 and before): install 1.17.8 or newer"
        )


def require_protection(facts: EngineFacts) -> None:
    if not facts.filters_system_calls:
        raise SandboxUnavailable(
            "this Docker engine filters no system calls: start it without seccomp-profile=unconfined, on a kernel with "
            "seccomp"
        )
    if not facts.limits_memory or not facts.limits_processes:
        raise SandboxUnavailable(
            "this Docker engine cannot limit memory and processes: a rootless one needs cgroup v2 with the controllers "
            "memory, pids and cpu delegated to users (docs.docker.com/engine/security/rootless: limiting resources)"
        )


def _require_image(engine: Engine, image_id: str, name: str) -> None:
    labels = engine.image_labels(image_id)
    if labels is None:
        raise SandboxUnavailable(
            f"the engine at {engine.address} has no image {image_id}: compiler-agent sandbox build-image {name}"
        )
    if labels.get(SUPERVISOR_LABEL) != supervisor_digest():
        raise SandboxUnavailable(
            f"the image {image_id} was made for another version: compiler-agent sandbox build-image {name}"
        )


def _user(facts: EngineFacts) -> str:
    """Nobody, whom root and the owner of a rootless engine may stop; else ourselves, or SIGSTOP would be refused."""
    if os.geteuid() == 0 or facts.is_rootless:
        return NOBODY
    return f"{os.geteuid()}:{os.getegid()}"
