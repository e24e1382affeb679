"""GpuTrack: races on one GPU. Both sides run on copies of the arena, launched and replayed from CUDA graphs.

The judge's clock decides: from the request until all streams are done, less what the same request takes without its
calls. What is fresh is copied to the device before the clock runs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from candidates.benchmark.baseline import BaselinePool, DeviceBaselineRunner
from candidates.benchmark.exclusive import pinned, running_slot
from candidates.benchmark.pairing import CacheFlush, Side
from candidates.benchmark.track import Venue
from candidates.candidate import Candidate
from candidates.device import Gpu
from candidates.gpu_fingerprint import gpu_slot
from candidates.judge.python_runner import on_gpu, open_python_runner
from candidates.judge.runner_process import Timed
from candidates.kernel_runner import Call, KernelRunner, Prepared
from candidates.measurement import Baseline
from candidates.task import KernelTask
from kernel_sandbox.arena import Place
from kernel_sandbox.runners.device_calls import CallMode
from kernel_sandbox.sandbox import Sandbox

CALL_LIMIT_S = 60.0
"""A kernel's first call compiles what the build did not."""
_GRAPH_OF = {
    Baseline.EAGER_GRAPH: Baseline.EAGER_OUT,
    Baseline.FUSED_GRAPH: Baseline.FUSED,
    Baseline.COMPILE_GRAPH: Baseline.COMPILE,
}


class DeviceProcess(KernelRunner, Protocol):
    """Calls kernels on a device, on copies of what its last `lay_out` or `copy_in` found in the arena."""

    def run_timed(self, first: int, count: int, how: CallMode) -> Timed:
        """`count` calls of the layout from `first` on, less those with WITHOUT_CALLS. Raises RunnerEnded, a baseline
        BaselineFailed."""
        ...

    def capture(self, first: int, count: int, how: CallMode) -> None:
        """Makes the calls once, so that `run_timed` replays them. Raises NoGraph, a baseline BaselineFailed."""
        ...

    def copy_in(self) -> None:
        """What lies in the arena now, but for parameters, to where the layout's calls find it. Raises RunnerEnded, a
        baseline BaselineFailed."""
        ...


class DeviceRunner:
    """A KernelRunner: one way of calling what a process holds. Ways of one process share its layout."""

    def __init__(self, process: DeviceProcess, how: CallMode) -> None:
        self._process = process
        self._how = how | CallMode.TIMED
        self._told_ns: int | None = None

    def prepare(self, parameter_sets: Sequence[tuple[Place, ...]]) -> Prepared:
        return self._process.prepare(parameter_sets)

    def lay_out(self, axes: Sequence[int], calls: Sequence[Call]) -> None:
        self._process.lay_out(axes, calls)

    def rehearse(self, first: int, count: int) -> None:
        """On what lies in the arena now: a batch that is timed has fresh content. Raises NoGraph for a kernel that no
        graph can hold, BaselineFailed for such a baseline."""
        if self._how & CallMode.GRAPH:
            self._process.capture(first, count, self._how)

    def run(self, first: int, count: int) -> int:
        timed = self._process.run_timed(first, count, self._how)
        self._told_ns = timed.told_ns
        return timed.wall_ns

    def run_null(self, count: int) -> int:
        return self._process.run_timed(0, count, self._how | CallMode.WITHOUT_CALLS).wall_ns

    def device_ns(self) -> int | None:
        return self._told_ns

    def take_in(self) -> None:
        self._process.thaw()
        self._process.copy_in()
        self._process.freeze()

    def collect(self) -> None:
        self._process.collect()

    def freeze(self) -> None:
        self._process.freeze()

    def thaw(self) -> None:
        self._process.thaw()

    def cpu_time_ns(self) -> int:
        return self._process.cpu_time_ns()

    def close(self) -> None:
        self._process.close()


class GpuTrack:
    """Of one GPU: kernels in Triton or CUDA, launched or in graphs, against PyTorch there."""

    baselines: tuple[Baseline, ...] = (Baseline.EAGER_OUT, Baseline.FUSED, Baseline.COMPILE, *_GRAPH_OF)
    sample_us = 1000.0
    """A reply takes tens of microseconds, which vary."""
    is_device = True
    slots_bytes = 128 << 20

    def __init__(self, sandbox: Sandbox, gpu: Gpu, pool: BaselinePool, mode: str | None = None) -> None:
        """`sandbox` shows the GPU, and `pool` is on it. `mode` of the runners: this GPU by default."""
        self._sandbox = sandbox
        self._gpu = gpu
        self._pool = pool
        self._mode = mode or on_gpu(gpu.uuid)

    def screening_threads(self, task: KernelTask) -> int:
        return task.threads

    @contextmanager
    def reserve(self, threads: int, *, beside_builds: bool) -> Iterator[int | None]:
        """This GPU alone; nothing is measured on the CPU meanwhile, on other GPUs it may be. Builds go on."""
        with running_slot(), gpu_slot(self._gpu.uuid), pinned(None):
            yield None

    def make_flush(self, last_cache_bytes: int) -> CacheFlush | None:
        return None

    def open_baseline(self, baseline: Baseline, at: Venue) -> Side:
        process = self._pool.open(_GRAPH_OF.get(baseline, baseline), at.task, at.arena, at.core, at.threads)
        assert isinstance(process, DeviceBaselineRunner)
        return _side(process, at, is_graph=baseline in _GRAPH_OF, is_trusted=True)

    def open_kernel(
        self, candidate: Candidate, artifact: bytes, at: Venue, *, is_judged: bool, dispatch_us: float
    ) -> tuple[Side, ...]:
        process = self._open(candidate, artifact, at, is_judged=is_judged)
        launched = _side(process, at, is_graph=False, dispatch_us=dispatch_us)
        return launched, _side(process, at, is_graph=True)  # a replay dispatches nothing

    def open_handshake(self, at: Venue) -> Side:
        return _side(self._open(None, b"", at, is_judged=False), at, is_graph=False)

    def _open(self, candidate: Candidate | None, artifact: bytes, at: Venue, *, is_judged: bool) -> DeviceProcess:
        return open_python_runner(
            self._sandbox,
            at.task,
            candidate,
            artifact,
            at.arena,
            self._mode,
            call_limit_s=CALL_LIMIT_S,
            core=at.core,
            is_judged=is_judged,
        )


def _side(
    process: DeviceProcess, at: Venue, *, is_graph: bool, dispatch_us: float = 0.0, is_trusted: bool = False
) -> Side:
    how = (CallMode.COLD if at.is_cold else CallMode.PLAIN) | (CallMode.GRAPH if is_graph else CallMode.PLAIN)
    return Side(
        runner=DeviceRunner(process, how),
        alone=DeviceRunner(process, how | CallMode.HELD),
        dispatch_us=dispatch_us,
        is_trusted=is_trusted,
        is_graph=is_graph,
    )
