"""The baselines of a race: trusted PyTorch processes, kept alive through a run, that stand in for a kernel's runner."""

import contextlib
import itertools
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from candidates.benchmark.baseline_protocol import (
    DONE,
    RUN_PAYLOAD,
    Command,
    Layout,
    Opening,
    pickled,
    read_exactly,
    read_pickled,
)
from candidates.benchmark.fused import find_fused
from candidates.judge.runner_process import Timed
from candidates.kernel_runner import Call, Prepared
from candidates.measurement import Baseline
from candidates.task import KernelTask
from kernel_sandbox.arena import Arena, Place
from kernel_sandbox.runners.device_calls import CallMode


class BaselineFailed(Exception):
    """PyTorch itself cannot run, fuse or compile the task's reference, or ended; never the candidate's fault."""


class BaselineGone(BaselineFailed):
    """Its process ended, and with it every baseline that has a session there; a new process may do better."""


class Allocator(StrEnum):
    DEFAULT = "default"
    KEEPING = "keeping"
    """Freed memory stays mapped, so that outputs allocated afresh cost no page faults."""


ALLOCATOR_OF = {
    Baseline.EAGER: Allocator.DEFAULT,
    Baseline.EAGER_OUT: Allocator.KEEPING,
    Baseline.FUSED: Allocator.KEEPING,
    Baseline.COMPILE: Allocator.KEEPING,
}
ENDING_LIMIT_S, REPLY_LIMIT_S = 10.0, 600.0
"""Of a process that is ending, until its status is known; of an answer, for which torch.compile may take minutes."""
PROGRAM = (sys.executable, "-m", "candidates.benchmark.baseline_process")

_CPU_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED, from linux/posix-timers.h: the clock id holds the inverted pid above it

_ALLOCATOR_ENVIRONMENT = {
    Allocator.DEFAULT: {},
    Allocator.KEEPING: {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)},
}


@dataclass(frozen=True, slots=True)
class _ProcessKey:
    allocator: Allocator
    threads: int
    is_compiled: bool = False
    """On a GPU, where code that a compiler wrote may fault: the device is then lost to its process."""


class BaselineProcess:
    """One PyTorch process and the pipes to it."""

    def __init__(
        self, allocator: Allocator, threads: int, compile_cache: Path, program: Sequence[str], gpu: str | None
    ) -> None:
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self._process = subprocess.Popen(
            [*program, str(requests), str(replies), *([] if gpu is None else [gpu])],
            pass_fds=(requests, replies),
            env=_environment(allocator, threads, compile_cache),
            stdin=subprocess.DEVNULL,
        )
        os.close(requests)
        os.close(replies)
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)

    def send(self, command: Command, content: object) -> None:
        """Raises BaselineFailed with PyTorch's message, BaselineGone when the process is gone."""
        self._require_running()
        try:
            os.write(self._requests, bytes([command]))
            body = memoryview(pickled(content))
            while body:
                body = body[os.write(self._requests, body) :]
            if not self._poll.poll(REPLY_LIMIT_S * 1000):
                raise self._hung()
            if read_exactly(self._replies, 1) != DONE:
                raise BaselineFailed(str(read_pickled(self._replies)))
        except (EOFError, BrokenPipeError) as error:
            raise self._ended() from error

    def run(self, session: int, first: int, count: int, how: int = 0) -> int:
        """ns from request to reply. Raises BaselineGone."""
        self._require_running()
        message = bytes([Command.RUN]) + RUN_PAYLOAD.pack(session, first, count, how)
        try:
            began_ns = time.perf_counter_ns()
            os.write(self._requests, message)
            is_answered = self._poll.poll(REPLY_LIMIT_S * 1000)
            elapsed_ns = time.perf_counter_ns() - began_ns
        except BrokenPipeError as error:
            raise self._ended() from error
        if not is_answered:
            raise self._hung()
        if os.read(self._replies, 1) != DONE:
            raise self._ended()
        return elapsed_ns

    def cpu_time_ns(self) -> int:
        """Raises BaselineGone."""
        self._require_running()
        return time.clock_gettime_ns(~self._process.pid << 3 | _CPU_CLOCK_OF_PROCESS)

    def close(self) -> None:
        """Once, and also of a process that has ended; what uses it afterwards raises BaselineGone."""
        os.close(self._requests)
        os.close(self._replies)
        self._process.kill()
        self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def _require_running(self) -> None:
        # The descriptors of a process that was closed may be another's by now.
        if self.has_ended:
            raise self._ended()

    def _ended(self, what: str = "ended") -> BaselineGone:
        """The process is gone when this returns; so are all of its sessions. Its pipes are for `close` to close."""
        try:
            code = self._process.wait(timeout=ENDING_LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
        self._process.kill()
        self._process.wait()
        return BaselineGone(f"a PyTorch process {what} ({code}); its messages are on standard error")

    def _hung(self) -> BaselineGone:
        """As a process may whose device is lost."""
        self._process.kill()
        return self._ended(f"gave no answer in {REPLY_LIMIT_S:g} s")


class BaselineRunner:
    """A KernelRunner, but for raising BaselineFailed: one session in a process that it shares with others."""

    def __init__(self, process: BaselineProcess, session: int, task: KernelTask) -> None:
        self._process = process
        self._session = session
        self._task = task

    def prepare(self, parameter_sets: Sequence[tuple[Place, ...]]) -> Prepared:
        return Prepared(elapsed_ns=0, size_bytes=0)

    def lay_out(self, axes: Sequence[int], calls: Sequence[Call]) -> None:
        """Compiles for a new shape where the baseline is compiled: seconds."""
        sizes = dict(zip(self._task.axes, axes, strict=True))
        self._process.send(Command.LAY_OUT, Layout(session=self._session, axes=sizes, calls=tuple(calls)))

    def run(self, first: int, count: int) -> int:
        return self._process.run(self._session, first, count)

    def run_null(self, count: int) -> int:
        return self.run(0, 0)

    def device_ns(self) -> int | None:
        return None

    def take_in(self) -> None:
        """PyTorch reads the arena itself."""

    def rehearse(self, first: int, count: int) -> None:
        """`lay_out` has run the reference."""

    def collect(self) -> None:
        """PyTorch's outputs are its own."""

    def freeze(self) -> None:
        """Nothing to do: a trusted process that is not asked to run waits in a read."""

    def thaw(self) -> None:
        pass

    def cpu_time_ns(self) -> int:
        return self._process.cpu_time_ns()

    def close(self) -> None:
        """Ends the session; the process stays with its pool."""
        with contextlib.suppress(BaselineGone):  # so is its session
            self._process.send(Command.CLOSE, self._session)


class DeviceBaselineRunner(BaselineRunner):
    """In a process on a GPU: PyTorch on copies of the arena; a DeviceProcess of gpu_track.py."""

    def run_timed(self, first: int, count: int, how: CallMode) -> Timed:
        """Raises BaselineGone, as where the device faulted."""
        return Timed(wall_ns=self._process.run(self._session, first, count, how), told_ns=None)

    def capture(self, first: int, count: int, how: CallMode) -> None:
        """Raises BaselineFailed where no graph can hold it."""
        self._process.send(Command.CAPTURE, (self._session, first, count, int(how)))

    def copy_in(self) -> None:
        """Raises BaselineFailed."""
        self._process.send(Command.COPY_IN, self._session)


class BaselinePool:
    """At most two processes for each thread count, started when first needed and spawned, never forked: after an
    OpenMP region a forked child hangs in its first. Close it, or use it as a context manager."""

    def __init__(self, compile_cache: Path, gpu: str | None = None, program: Sequence[str] = PROGRAM) -> None:
        """`gpu` is the UUID of the one on which they all run; its runners are DeviceBaselineRunners."""
        self._compile_cache = compile_cache
        self._gpu = gpu
        self._program = program
        self._processes: dict[_ProcessKey, BaselineProcess] = {}
        self._sessions = itertools.count()
        self._fused: dict[str, str | None] = {}

    def open(
        self, baseline: Baseline, task: KernelTask, arena: Arena, core: int | None, threads: int
    ) -> BaselineRunner:
        """`core`: the whole process is pinned there, None: all cores. Raises BaselineFailed."""
        reference = self._fuse(task) if baseline is Baseline.FUSED else task.reference
        is_compiled = baseline is Baseline.COMPILE
        key = _ProcessKey(ALLOCATOR_OF[baseline], threads, is_compiled and self._gpu is not None)
        if key in self._processes and self._processes[key].has_ended:
            self._processes.pop(key).close()
        if key not in self._processes:
            self._processes[key] = BaselineProcess(
                key.allocator, threads, self._compile_cache, self._program, self._gpu
            )
        process = self._processes[key]
        process.send(Command.PIN, core)
        session = next(self._sessions)
        process.send(
            Command.OPEN,
            Opening(
                session=session,
                task_json=task.model_dump_json(),
                reference=reference,
                segment_paths={
                    segment: f"/proc/{os.getpid()}/fd/{descriptor}" for segment, descriptor in arena.descriptors.items()
                },
                is_compiled=is_compiled,
            ),
        )
        runner = BaselineRunner if self._gpu is None else DeviceBaselineRunner
        return runner(process, session, task)

    def _fuse(self, task: KernelTask) -> str:
        if task.id not in self._fused:
            self._fused[task.id] = find_fused(task)
        source = self._fused[task.id]
        if source is None:
            raise BaselineFailed(f"no single op of PyTorch does what {task.op} does")
        return source

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def __enter__(self) -> "BaselinePool":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _environment(allocator: Allocator, threads: int, compile_cache: Path) -> dict[str, str]:
    return {
        **os.environ,
        **_ALLOCATOR_ENVIRONMENT[allocator],
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",
        "TORCHINDUCTOR_CACHE_DIR": str(compile_cache),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
