"""Judge: whether a built kernel is right: secret inputs, every element of every call against the float64 oracle.

It does not time; the benchmark does, and checks the calls that it timed with `outputs.check_outputs`. A Triton kernel
is run by Triton's interpreter on reduced shapes, which says nothing of the compiled code.
"""

import contextlib
import functools
import math
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from candidates.benchmark.exclusive import running_slot
from candidates.candidate import Candidate, LanguageName
from candidates.device import Gpu
from candidates.gpu_fingerprint import gpu_slot
from candidates.inputs import Distribution
from candidates.judge.artifact import SHIPPING_RULES, find_forbidden
from candidates.judge.cpp_runner import CALL_LIMIT_S, open_cpp_runner
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.judge.endings import CANNOT_INTERPRET_STATUS, fault_of_ending, last_line
from candidates.judge.instructions import find_forbidden_instructions
from candidates.judge.outputs import Fault, rejected
from candidates.judge.python_runner import INTERPRETED, on_gpu, open_python_runner
from candidates.judge.reduced_shapes import reduced_task
from candidates.judge.runner_process import RunnerProcess
from candidates.judge.trial import MARGIN_BYTES, ParameterSet, Trial, case_bytes, parameters_bytes, place_parameters
from candidates.kernel_runner import NoGraph, RunnerEnded
from candidates.languages.cpp_abi import exported_names
from candidates.task import KernelTask, Workload
from candidates.verdict import Accepted, Evidence, EvidenceKind, NeedsDevice, Reason, Rejected, Verdict
from kernel_sandbox.arena import Arena, Segment
from kernel_sandbox.runners.device_calls import CallMode
from kernel_sandbox.sandbox import Ending, Sandbox

SMALL_ELEMENTS = 1 << 18
LARGE_ELEMENTS = 1 << 22
BATCH_BYTES = 64 << 20
LARGE_PARAMETERS_BYTES = 256 << 20
INTERPRETED_LIMIT_S = 60.0  # for a batch; a block of a real model takes ten seconds
INTERPRETED_S = 4.0  # after it no batch is begun but the first of a shape
LONGEST_INTERPRETED_S = 12.0  # and after this none at all
INTERPRETED_CASES = 1
_LATE_WRITE_S = 0.003  # how long a thread that outlives its call gets to give itself away
_LATE_WRITE_CPU_NS = 10_000_000  # and, where one does run on, how much it gets to run in all
_LONGEST_LATE_WRITE_S = 0.25
_AT_REST = 0.02  # of the time; what waking up takes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """What is laid out and run at once."""

    workload: Workload
    distributions: tuple[Distribution, ...]
    is_first: bool
    """Of its workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """Where a candidate is tried, and on what."""

    task: KernelTask
    evidence: EvidenceKind
    open_runner: Callable[[Arena], RunnerProcess]
    most_cases: int = sys.maxsize
    """In one batch."""
    reserve: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """The right to run anything there."""
    has_graphs: bool = False
    """Serving may replay the kernel from CUDA graphs: what a replay leaves is judged too."""
    most_s: float = math.inf
    """No batch but the first of a workload is begun later than this."""
    longest_s: float = math.inf
    """And none at all later than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBench:
    gpu: Gpu
    sandbox: Sandbox
    """Which shows it."""


class Judge:
    """`core` pins the kernel to one core, `cache_folder` keeps the compiled runner; `gpu` is where kernels for its
    architecture run."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        core: int | None = None,
        gpu: GpuBench | None = None,
        call_limit_s: float = CALL_LIMIT_S,
        cache_folder: Path | None = None,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        self._sandbox = sandbox
        self._defences = defences
        self._core = core
        self._gpu = gpu
        self._call_limit_s = call_limit_s
        self._cache_folder = cache_folder

    def judge(self, task: KernelTask, candidate: Candidate, artifact: bytes, seed: int | None = None) -> Verdict:
        """`seed` replays an earlier verdict; without one it is drawn here, after the artifact is fixed.

        Raises SandboxError when the machinery failed, which says nothing about the candidate.
        """
        seed = secrets.randbits(63) if seed is None else seed
        rng = np.random.default_rng(seed)
        match candidate.language:
            case LanguageName.CPP:
                ground = self._native(task, candidate, artifact)
            case LanguageName.TRITON | LanguageName.CUDA if self._gpu is not None and self._gpu.gpu.serves(task):
                ground = self._on_gpu(task, candidate, artifact, self._gpu)
            case LanguageName.TRITON:
                ground = self._interpreted(task, candidate, rng)
            case LanguageName.CUDA:
                if forbidden := self._find_forbidden(candidate, artifact):
                    return _forbidden(forbidden, seed)
                return NeedsDevice(target=task.device_id, note="nothing emulates CUDA")
        with ground.reserve():
            return self._judge_on(ground, task, candidate, artifact, rng, seed)

    def _judge_on(
        self,
        ground: _Ground,
        task: KernelTask,
        candidate: Candidate,
        artifact: bytes,
        rng: np.random.Generator,
        seed: int,
    ) -> Verdict:
        batches = list(_plan(ground.task, rng, self._defences, ground.most_cases))
        has_two_sets = Defence.PARAMETER_SETS in self._defences and task.parameter_bytes() <= LARGE_PARAMETERS_BYTES
        parameter_sets = 2 if has_two_sets else 1
        with _make_arena(ground.task, batches, parameter_sets, self._defences) as arena:
            parameters = place_parameters(ground.task, arena, rng, parameter_sets)
            try:
                runner = ground.open_runner(arena)
            except RunnerEnded as ended:
                return _rejected_before_calls(ended, Reason.LOAD_FAILED, seed)
            with contextlib.closing(runner):
                try:
                    runner.prepare([tuple(parameter.places.values()) for parameter in parameters])
                except RunnerEnded as ended:
                    return _rejected_before_calls(ended, Reason.PREPARE_FAILED, seed)
                verdict = self._try_all(ground, batches, arena, runner, parameters, rng, seed)
        if isinstance(verdict, Accepted) and (forbidden := self._find_forbidden(candidate, artifact)):
            return _forbidden(forbidden, seed)
        return verdict

    def _native(self, task: KernelTask, candidate: Candidate, artifact: bytes) -> _Ground:
        def open_runner(arena: Arena) -> RunnerProcess:
            return open_cpp_runner(
                self._sandbox,
                task,
                candidate,
                artifact,
                arena,
                self._core,
                task.threads,
                call_limit_s=self._call_limit_s,
                cache_folder=self._cache_folder,
                defences=self._defences,
            )

        return _Ground(task=task, evidence=EvidenceKind.NATIVE, open_runner=open_runner, reserve=running_slot)

    def _on_gpu(self, task: KernelTask, candidate: Candidate, artifact: bytes, bench: GpuBench) -> _Ground:
        def open_runner(arena: Arena) -> RunnerProcess:
            mode = on_gpu(bench.gpu.uuid)
            return open_python_runner(
                bench.sandbox, task, candidate, artifact, arena, mode, call_limit_s=self._call_limit_s
            )

        return _Ground(
            task=task,
            evidence=EvidenceKind.NATIVE,
            open_runner=open_runner,
            reserve=functools.partial(gpu_slot, bench.gpu.uuid),
            has_graphs=True,
        )

    def _interpreted(self, task: KernelTask, candidate: Candidate, rng: np.random.Generator) -> _Ground:
        reduced = reduced_task(task, rng)

        def open_runner(arena: Arena) -> RunnerProcess:
            return open_python_runner(
                self._sandbox,
                reduced,
                candidate,
                b"",
                arena,
                INTERPRETED,
                call_limit_s=INTERPRETED_LIMIT_S,
                core=self._core,
            )

        return _Ground(
            task=reduced,
            evidence=EvidenceKind.INTERPRETED,
            open_runner=open_runner,
            most_cases=INTERPRETED_CASES,
            most_s=INTERPRETED_S,
            longest_s=LONGEST_INTERPRETED_S,
        )

    def _try_all(
        self,
        ground: _Ground,
        batches: Sequence[_Batch],
        arena: Arena,
        runner: RunnerProcess,
        parameters: Sequence[ParameterSet],
        rng: np.random.Generator,
        seed: int,
    ) -> Verdict:
        used = {segment: arena.used_bytes(segment) for segment in Segment}
        worst, calls_checked = 0.0, 0
        began_s = time.monotonic()
        forms = [
            (batch, is_graph) for batch in batches for is_graph in ((False, True) if ground.has_graphs else (False,))
        ]
        for batch, is_graph in forms:
            if calls_checked and time.monotonic() - began_s > (ground.longest_s if batch.is_first else ground.most_s):
                continue
            for segment, bytes_below in used.items():
                arena.release(segment, bytes_below)
            trial = Trial(
                ground.task,
                batch.workload,
                batch.distributions,
                parameters,
                arena,
                rng,
                self._defences,
                first_case=calls_checked // 2,
            )
            try:
                found = self._try_batch(ground.task, trial, runner, is_graph=is_graph)
            except NoGraph:
                continue  # serving launches it
            except RunnerEnded as ended:
                if ground.evidence is EvidenceKind.INTERPRETED and (note := _why_not_interpreted(ended)):
                    if batch.workload.is_hidden:
                        note = "it cannot be interpreted on a shape that is not shown"
                    return NeedsDevice(target=ground.task.device_id, note=note)
                fault = fault_of_ending(ended, Reason.CRASHED)
                return rejected(batch.workload, fault, seed=seed, log_tail=ended.finished.log)
            if isinstance(found, tuple):
                distribution, fault = found
                return rejected(batch.workload, fault, seed=seed, distribution=distribution)
            worst = max(worst, found)
            calls_checked += len(trial.calls)
        return Accepted(evidence=ground.evidence, seed=seed, calls_checked=calls_checked, worst_error_in_bounds=worst)

    def _find_forbidden(self, candidate: Candidate, artifact: bytes) -> list[str]:
        """In what would be shipped. The source of a Python kernel is held to its rules before it is built."""
        if candidate.language not in SHIPPING_RULES or Defence.SHIPPED_CODE not in self._defences:
            return []
        exports = exported_names(candidate.entry, candidate.prepare)
        forbidden = find_forbidden(artifact, exports, SHIPPING_RULES[candidate.language])
        return forbidden + find_forbidden_instructions(self._sandbox, artifact)

    def _try_batch(
        self, task: KernelTask, trial: Trial, runner: RunnerProcess, *, is_graph: bool
    ) -> tuple[Distribution | None, Fault] | float:
        """Raises RunnerEnded, NoGraph."""
        runner.lay_out([trial.workload.axes[axis] for axis in task.axes], trial.calls)
        if is_graph:
            runner.capture(0, len(trial.calls), CallMode.GRAPH)
            runner.copy_in()
        runner.run_timed(0, len(trial.calls), CallMode.GRAPH if is_graph else CallMode.PLAIN)
        runner.collect()
        if Defence.FREEZE in self._defences:
            runner.freeze()
        else:
            time.sleep(_LATE_WRITE_S)
        found = trial.find_fault()
        if isinstance(found, float) and Defence.UNCHANGED_AFTER_RETURN in self._defences:
            left = trial.snapshot()
            runner.thaw()
            if task.threads > 1:
                _let_run_on(runner)
            runner.freeze()
            if not np.array_equal(left, trial.snapshot()):
                message = "outputs changed after the kernel had returned"
                found = None, Fault(reason=Reason.OUTPUT_CHANGED_AFTER_RETURN, message=message)
        runner.thaw()
        return found


def _why_not_interpreted(ended: RunnerEnded) -> str:
    """Empty where the kernel itself is at fault."""
    finished = ended.finished
    if finished.ending is Ending.TIMED_OUT:
        return f"its calls take longer than {INTERPRETED_LIMIT_S:g} s in the interpreter"
    if finished.ending is Ending.EXITED and finished.exit_code == CANNOT_INTERPRET_STATUS:
        return last_line(finished.log)
    return ""


def _let_run_on(runner: RunnerProcess) -> None:
    """Until nothing has run in it for a while: a busy machine must not shorten what a late thread gets."""
    first_ns = used_ns = runner.cpu_time_ns()
    for _ in range(int(_LONGEST_LATE_WRITE_S / _LATE_WRITE_S)):
        time.sleep(_LATE_WRITE_S)
        last_ns, used_ns = used_ns, runner.cpu_time_ns()
        if used_ns - last_ns < _AT_REST * _LATE_WRITE_S * 1e9 or used_ns - first_ns > _LATE_WRITE_CPU_NS:
            return


def _plan(task: KernelTask, rng: np.random.Generator, defences: Defences, most_cases: int) -> Iterator[_Batch]:
    # Hidden ones last: what a kernel prints about them is then in no log that an author gets to see.
    hidden = task.hidden_workloads if Defence.HIDDEN_SHAPES in defences else ()
    for workload in (*task.public_workloads, *hidden):
        chosen = _choose_distributions(task, workload, rng)
        if Defence.DISTRIBUTIONS not in defences:
            chosen = [Distribution.NORMAL] * len(chosen)
        bytes_a_case = sum(case_bytes(task, workload, defences).values())
        cases = min(max(1, BATCH_BYTES // bytes_a_case), most_cases)
        for first in range(0, len(chosen), cases):
            distributions = tuple(chosen[first : first + cases])
            yield _Batch(workload=workload, distributions=distributions, is_first=first == 0)


def _choose_distributions(task: KernelTask, workload: Workload, rng: np.random.Generator) -> list[Distribution]:
    """All for a small public shape, fewer for a large or a hidden one, never fewer than two."""
    elements = sum(spec.numel(workload.axes) for spec in (*task.inputs, *task.outputs))
    if elements > LARGE_ELEMENTS:
        others = 1
    elif elements > SMALL_ELEMENTS or workload.is_hidden:
        others = 2
    else:
        return list(Distribution)
    rest = [distribution for distribution in Distribution if distribution is not Distribution.NORMAL]
    return [Distribution.NORMAL, *(rest[index] for index in rng.permutation(len(rest))[:others])]


def _make_arena(task: KernelTask, batches: Sequence[_Batch], parameter_sets: int, defences: Defences) -> Arena:
    """Large enough for the largest batch."""
    sizes = dict.fromkeys(Segment, 0)
    for batch in batches:
        for segment, size in case_bytes(task, batch.workload, defences).items():
            sizes[segment] = max(sizes[segment], len(batch.distributions) * size)
    parameters = parameters_bytes(task, parameter_sets)
    return Arena(sizes[Segment.INPUTS] + parameters, sizes[Segment.OUTPUTS] + MARGIN_BYTES)


def _forbidden(found: Sequence[str], seed: int) -> Rejected:
    evidence = Evidence(message=f"the kernel may not be shipped: it {'; it '.join(found)}")
    return Rejected(reason=Reason.FORBIDDEN_SYMBOL, workload=None, evidence=evidence, seed=seed)


def _rejected_before_calls(ended: RunnerEnded, phase: Reason, seed: int) -> Rejected:
    fault = fault_of_ending(ended, phase)
    evidence = Evidence(message=fault.message, log_tail=ended.finished.log)
    return Rejected(reason=fault.reason, workload=None, evidence=evidence, seed=seed)
