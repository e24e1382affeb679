"""Track: where a race is run: who opens its sides there, what is reserved meanwhile, how long its samples are.

CpuTrack is one here; candidates/benchmark/gpu_track.py is another.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.exclusive import exclusive_slot, measuring_core, pinned, screening_slot
from candidates.benchmark.pairing import CacheFlush, Side
from candidates.candidate import Candidate
from candidates.judge.cpp_runner import open_cpp_runner, open_null_runner
from candidates.judge.defences import ALL_DEFENCES, Defences
from candidates.measurement import Baseline
from candidates.task import KernelTask
from kernel_sandbox.arena import Arena
from kernel_sandbox.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Venue:
    """What all sides of a contest share."""

    task: KernelTask
    arena: Arena
    core: int | None
    """On which all run; None: on all cores."""
    threads: int
    is_cold: bool
    """Serving finds a call's parameters in memory, not in a cache."""


class Track(Protocol):
    baselines: tuple[Baseline, ...]
    """All ways in which PyTorch runs a task there."""
    sample_us: float
    """What a sample of the faster side should last, where the slots for it fit."""
    slots_bytes: int
    """Of the calls of a sample, together."""
    is_device: bool
    """Kernels run beside the CPU, on copies of the arena: what a runner's CPU does is no kernel's work."""

    def screening_threads(self, task: KernelTask) -> int: ...

    def reserve(self, threads: int, *, beside_builds: bool) -> AbstractContextManager[int | None]:
        """The right to measure, and the core on which all sides run; None: on all cores. `beside_builds`: what only
        ranks lets compilers work on the cores that it does not use."""
        ...

    def make_flush(self, last_cache_bytes: int) -> CacheFlush | None:
        """What makes parameters cold before a sample; None where every call sees to it."""
        ...

    def open_baseline(self, baseline: Baseline, at: Venue) -> Side:
        """Raises BaselineFailed."""
        ...

    def open_kernel(
        self, candidate: Candidate, artifact: bytes, at: Venue, *, is_judged: bool, dispatch_us: float
    ) -> tuple[Side, ...]:
        """The forms in which one process calls the kernel; serving has the fastest. Raises RunnerEnded, and without
        `is_judged` SandboxError in its stead."""
        ...

    def open_handshake(self, at: Venue) -> Side:
        """A runner without a kernel. Raises SandboxError."""
        ...


class CpuTrack:
    """Of this machine's CPU: kernels in C++ against PyTorch, on the arena itself; one core for one thread."""

    baselines: tuple[Baseline, ...] = (Baseline.EAGER, Baseline.EAGER_OUT, Baseline.FUSED, Baseline.COMPILE)
    sample_us = 100.0
    slots_bytes = 16 << 20
    is_device = False

    def __init__(
        self, sandbox: Sandbox, pool: BaselinePool, cache_folder: Path, defences: Defences = ALL_DEFENCES
    ) -> None:
        """`cache_folder` keeps the compiled runner."""
        self._sandbox = sandbox
        self._pool = pool
        self._cache_folder = cache_folder
        self._defences = defences

    def screening_threads(self, task: KernelTask) -> int:
        return 1

    @contextmanager
    def reserve(self, threads: int, *, beside_builds: bool) -> Iterator[int | None]:
        core = measuring_core() if threads == 1 else None
        slot = screening_slot if beside_builds and core is not None else exclusive_slot
        with slot(), pinned(core):
            yield core

    def make_flush(self, last_cache_bytes: int) -> CacheFlush:
        return CacheFlush(last_cache_bytes)

    def open_baseline(self, baseline: Baseline, at: Venue) -> Side:
        return Side(runner=self._pool.open(baseline, at.task, at.arena, at.core, at.threads), is_trusted=True)

    def open_kernel(
        self, candidate: Candidate, artifact: bytes, at: Venue, *, is_judged: bool, dispatch_us: float
    ) -> tuple[Side, ...]:
        runner = open_cpp_runner(
            self._sandbox,
            at.task,
            candidate,
            artifact,
            at.arena,
            at.core,
            at.threads,
            cache_folder=self._cache_folder,
            defences=self._defences,
            is_judged=is_judged,
        )
        return (Side(runner=runner, dispatch_us=dispatch_us),)

    def open_handshake(self, at: Venue) -> Side:
        runner = open_null_runner(
            self._sandbox, at.task, at.arena, at.core, at.threads, cache_folder=self._cache_folder
        )
        return Side(runner=runner)
