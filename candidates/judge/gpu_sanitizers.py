"""GpuSanitizers: a kernel run on its GPU under NVIDIA's compute-sanitizer, on reduced shapes, in a GPU's sandbox.

Three of its tools watch: memcheck (accesses beyond an allocation; each tensor is one of exactly its size), racecheck
(shared memory alone) and synccheck. Not initcheck: the runner writes every tensor before the kernel sees it, so all
that it could find is scratch of the kernel's own, which the judge fills with NaNs; and loads that are wider than what
is used of them are errors to it.

They are for authors who err, as `sanitizers` is: a kernel can tell that it is being watched, and could write the log.
The values that it leaves are not looked at. Whatever goes wrong counts against the kernel only if the same run without
it comes to a clean end; else the tool does not work here. Untested on a device: see docs/gpu.md.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from candidates.candidate import Candidate
from candidates.judge.compute_sanitizer_log import (
    ENVIRONMENT,
    Clean,
    Flawed,
    Tool,
    Unfinished,
    read_sanitizer_log,
    sanitizer_command,
)
from candidates.judge.endings import fault_of_ending
from candidates.judge.judge import GpuBench
from candidates.judge.outputs import Fault, rejected
from candidates.judge.plain_calls import CALLS_AT_ONCE, END_LIMIT_S, open_plain_calls
from candidates.judge.python_runner import Watch, on_gpu
from candidates.judge.reduced_shapes import Inputs, reduced_calls
from candidates.judge.sanitizers import Sanitized, SanitizersUnavailable
from candidates.judge.watcher import LOG_FILE, Program, Watcher, compute_sanitizer
from candidates.kernel_runner import RunnerEnded
from candidates.task import KernelTask, Workload
from candidates.verdict import Evidence, Reason, Rejected
from kernel_sandbox.runners.device_calls import CallMode
from kernel_sandbox.sandbox import Ending, Finished, SandboxError

TOOLS = (Tool.MEMCHECK, Tool.RACECHECK, Tool.SYNCCHECK)
LOAD_LIMIT_S, CALLS_LIMIT_S = 180.0, 120.0
"""Of one process, of the calls on one shape: watched code is tens of times slower."""
TOOL_S = 120.0
"""No shape is begun later, the smallest ones being first; those that were not are not said to be clean."""
_SHOWN_CHARACTERS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    finished: Finished
    report: str
    """The tool's."""
    fault: Fault | None
    """How the runner ended before all calls returned."""
    at: Workload | None
    """Where it did."""
    done: tuple[Workload, ...]


class GpuSanitizers:
    """`program` and `mode` are for those who have neither compute-sanitizer nor a GPU."""

    def __init__(self, bench: GpuBench, *, program: Program | None = None, mode: str | None = None) -> None:
        self._bench = bench
        self._program = program or compute_sanitizer()
        self._mode = mode or on_gpu(bench.gpu.uuid)

    def check(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, seed: int | None = None
    ) -> Sanitized | Rejected:
        """For a candidate that was built and judged before, in Triton or CUDA. Minutes.

        Raises SandboxError for the machine's faults: its subclass SanitizersUnavailable where the tool is missing, or
        comes to no clean end without the kernel.
        """
        started_s = time.monotonic()
        seed = secrets.randbits(63) if seed is None else seed
        calls = reduced_calls(task, np.random.default_rng(seed))
        done = [workload for workload, _ in calls]
        for tool in TOOLS:
            run = self._run(tool, task, candidate, artifact, calls, seed)
            found = read_sanitizer_log(tool, run.report)
            if run.fault is not None or not isinstance(found, Clean):
                self._require_clean(tool, task, calls[:1], seed)
                return _verdict(tool, run, found, seed)
            done = [workload for workload in done if workload in run.done]
        return Sanitized(shapes=tuple(each.name for each in done), elapsed_s=time.monotonic() - started_s)

    def _require_clean(self, tool: Tool, task: KernelTask, calls: Sequence[tuple[Workload, Inputs]], seed: int) -> None:
        """Raises SanitizersUnavailable where the tool does not come to a clean end without any kernel."""
        try:
            run = self._run(tool, task, None, b"", calls, seed)
        except SanitizersUnavailable:
            raise
        except SandboxError as error:
            raise SanitizersUnavailable(f"{self._words(tool)} does not run here: {error}") from error
        found = read_sanitizer_log(tool, run.report)
        if not isinstance(found, Clean):
            raise SanitizersUnavailable(f"{self._words(tool)} fails without any kernel: {found.message}")

    def _words(self, tool: Tool) -> str:
        return f"{self._program.name} ({tool.value}) on {self._bench.gpu.uuid}"

    def _run(
        self,
        tool: Tool,
        task: KernelTask,
        candidate: Candidate | None,
        artifact: bytes,
        calls: Sequence[tuple[Workload, Inputs]],
        seed: int,
    ) -> _Watched:
        """Without a candidate: all but the calls, and SandboxError for whatever goes wrong."""
        options = sanitizer_command(tool, LOG_FILE, ())[1:]
        watcher = Watcher(program=self._program, options=options, environment=ENVIRONMENT)
        watch = Watch(watcher=watcher, has_guards=False, load_limit_s=LOAD_LIMIT_S, ending_grace_s=END_LIMIT_S)
        opened = open_plain_calls(
            self._bench,
            task,
            candidate,
            artifact,
            [workload for workload, _ in calls],
            np.random.default_rng(seed),
            mode=self._mode,
            watch=watch,
            call_limit_s=CALLS_LIMIT_S,
        )
        # Cold, so that the tool has a kernel to watch where there is none of a candidate's.
        how = CallMode.PLAIN if candidate is not None else CallMode.WITHOUT_CALLS | CallMode.COLD
        phase, at, fault = Reason.LOAD_FAILED, None, None
        done: list[Workload] = []
        try:
            with opened as plain:
                phase = Reason.PREPARE_FAILED
                plain.prepare()
                phase, began_s = Reason.CRASHED, time.monotonic()
                for at, inputs in calls:
                    if done and time.monotonic() - began_s > TOOL_S:
                        break
                    plain.lay_out(at, inputs)
                    plain.runner.run_timed(0, CALLS_AT_ONCE, how)
                    plain.runner.collect()
                    done.append(at)
                at = None
                finished = plain.runner.finish(END_LIMIT_S)
        except RunnerEnded as ended:
            finished, fault = ended.finished, _fault(ended, phase)
        if watcher.is_missing(finished):
            raise SanitizersUnavailable(f"no {self._program.name} in the sandbox: {self._program.advice}")
        return _Watched(finished=finished, report=watcher.report(finished), fault=fault, at=at, done=tuple(done))


def _fault(ended: RunnerEnded, phase: Reason) -> Fault:
    fault = fault_of_ending(ended, phase)
    if fault.reason is Reason.BROKE_PROTOCOL and ended.finished.ending is Ending.EXITED:
        # The status is the tool's, which has its own for a process that crashed.
        return replace(fault, reason=phase, message="the kernel's process ended")
    return fault


def _verdict(tool: Tool, run: _Watched, found: Clean | Flawed | Unfinished, seed: int) -> Rejected:
    if isinstance(found, Flawed):
        count = f" ({found.errors} errors)" if found.errors > 1 else ""
        fault = Fault(reason=found.reason, message=f"{found.message}{count}")
    elif run.fault is not None:
        fault = run.fault
    else:
        message = found.message if isinstance(found, Unfinished) else "no clean end"
        fault = Fault(reason=Reason.BROKE_PROTOCOL, message=message)
    fault = replace(fault, message=f"under compute-sanitizer's {tool.value}: {fault.message}")
    log = (run.report or run.finished.log)[:_SHOWN_CHARACTERS]
    if run.at is not None:
        return rejected(run.at, fault, seed=seed, log_tail=log)
    return Rejected(
        reason=fault.reason, workload=None, evidence=Evidence(message=fault.message, log_tail=log), seed=seed
    )
