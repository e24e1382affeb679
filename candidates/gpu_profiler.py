"""GpuProfiler: hardware counters of a candidate's launches on its GPU, by NVIDIA's ncu, for who writes the next one.

Of one call of the public workload that moves most bytes over the traffic. It judges nothing: a kernel that fails under
ncu is told as counters that are missing. Counters are ncu's word on a process that holds the kernel, which could write
them itself. Untested on a device: see docs/gpu.md.
"""

from dataclasses import dataclass

import numpy as np

from candidates.candidate import Candidate
from candidates.gpu_counters import WorkloadCounters, counters_command, read_counters, why_no_counters
from candidates.inputs import Distribution, draw_inputs
from candidates.judge.judge import GpuBench
from candidates.judge.plain_calls import CALLS_AT_ONCE, END_LIMIT_S, open_plain_calls
from candidates.judge.python_runner import Watch, on_gpu
from candidates.judge.watcher import LOG_FILE, Program, Watcher, ncu
from candidates.kernel_runner import RunnerEnded
from candidates.task import KernelTask, Workload
from kernel_sandbox.runners.device_calls import CallMode

LOAD_LIMIT_S, CALLS_LIMIT_S = 120.0, 120.0
"""A launch is replayed some ten times, with its memory saved and put back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCounted:
    why: str


class GpuProfiler:
    """`program` and `mode` are for those who have neither ncu nor a GPU."""

    def __init__(self, bench: GpuBench, *, program: Program | None = None, mode: str | None = None) -> None:
        self._bench = bench
        self._program = program or ncu()
        self._mode = mode or on_gpu(bench.gpu.uuid)

    def count(self, task: KernelTask, candidate: Candidate, artifact: bytes) -> WorkloadCounters | NotCounted:
        """Of a candidate in Triton or CUDA that was built and judged before. Half a minute, alone on the GPU. Raises
        SandboxError for the sandbox's faults alone: what ncu lacks is NotCounted.
        """
        workload = heaviest_public(task)
        watcher = Watcher(program=self._program, options=counters_command(LOG_FILE, ())[1:])
        watch = Watch(watcher=watcher, has_guards=True, load_limit_s=LOAD_LIMIT_S, ending_grace_s=END_LIMIT_S)
        rng = np.random.default_rng()
        inputs = draw_inputs(task, workload, Distribution.NORMAL, rng)
        opened = open_plain_calls(
            self._bench,
            task,
            candidate,
            artifact,
            [workload],
            rng,
            mode=self._mode,
            watch=watch,
            call_limit_s=CALLS_LIMIT_S,
        )
        why = ""
        try:
            with opened as plain:
                plain.prepare()
                plain.lay_out(workload, inputs)
                # What a first call compiles or sets up is not what one in service costs.
                plain.runner.run(0, CALLS_AT_ONCE - 1)
                plain.runner.run_timed(CALLS_AT_ONCE - 1, 1, CallMode.TIMED | CallMode.PROFILED)
                plain.runner.collect()
                finished = plain.runner.finish(END_LIMIT_S)
        except RunnerEnded as ended:
            finished, why = ended.finished, f"under {self._program.name} {ended}"
        if watcher.is_missing(finished):
            return NotCounted(why=f"no {self._program.name} in the sandbox: {self._program.advice}")
        report = watcher.report(finished)
        # A process that died later has counters all the same.
        if kernels := read_counters(report):
            return WorkloadCounters(workload=workload.name, kernels=kernels)
        # ncu ends what it may not look into: its own words belong to how the process ended.
        return NotCounted(why=": ".join(filter(None, [why, why_no_counters(report)])))


def heaviest_public(task: KernelTask) -> Workload:
    """By bytes of its tensors times calls."""
    return max(task.public_workloads, key=lambda each: task.moved_bytes(each) * each.calls_per_hour)
