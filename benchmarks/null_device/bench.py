"""The compiler, judge, sanitizers and clock of the null device: each answer is a function of the candidate's digest."""

import os
import random
import time
from pathlib import Path

from benchmarks.leaderboard_records import make_measurement, vary
from candidates.benchmark.benchmark import LiveKernel
from candidates.benchmark.exclusive import exclusive_slot
from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport
from candidates.judge.sanitizers import Sanitized
from candidates.language import BuildRecipe
from candidates.languages.cpp import CppLanguage
from candidates.measurement import Measurement, Stage
from candidates.task import KernelTask
from candidates.verdict import Accepted, Evidence, EvidenceKind, Reason, Rejected, Verdict

_SHARE_NOT_BUILT, _SHARE_WRONG = 0.08, 0.27
_LOG = "kernel.cpp:41:17: error: no matching function for call to 'load(const float*&, Tail&)'\n" * 20


def _draw(candidate: Candidate, what: str) -> float:
    """From 0 to 1, the same for a candidate whenever it is asked."""
    return random.Random(f"{candidate.id} {what}").random()


class NullBuilder:
    """Builds at once; the artifact is the source."""

    def build(self, task: KernelTask, candidate: Candidate) -> bytes | Rejected:
        if _draw(candidate, "fate") < _SHARE_NOT_BUILT:
            evidence = Evidence(message="the compiler refused it: no matching function", log_tail=_LOG)
            return Rejected(reason=Reason.BUILD_FAILED, workload=None, evidence=evidence, seed=0)
        return candidate.source.encode()


class CopyingLanguage(CppLanguage):
    """For the real builder and its sandbox: the compiler is `cp`, and a candidate that does not build runs `false`."""

    name = LanguageName.CPP

    def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        is_refused = _draw(candidate, "fate") < _SHARE_NOT_BUILT
        command = ("/bin/false",) if is_refused else ("/bin/cp", "kernel.cpp", "kernel.so")
        return BuildRecipe(files={"kernel.cpp": candidate.source.encode()}, commands=(command,), artifact="kernel.so")


class NullReports:
    def report(self, task: KernelTask, candidate: Candidate) -> CompilerReport:
        return CompilerReport(notes=("nothing was compiled",))


class NullJudge:
    def judge(self, task: KernelTask, candidate: Candidate, artifact: bytes, seed: int | None = None) -> Verdict:
        if _draw(candidate, "fate") < _SHARE_WRONG:
            evidence = Evidence(message="element [0, 3, 17] of output lies 4.1e+03 bounds from the oracle")
            workload = task.public_workloads[0].name
            return Rejected(reason=Reason.WRONG_VALUES, workload=workload, evidence=evidence, seed=1)
        return Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=48, worst_error_in_bounds=0.2)


class NullSanitizers:
    def check(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, seed: int | None = None
    ) -> Sanitized | Rejected:
        return Sanitized(shapes=(), elapsed_s=0.0)


class NullBenchmark:
    """Takes `measuring_s` for each measurement, and the machine for itself meanwhile, as whatever measures does."""

    def __init__(self, measuring_s: float, times: Path | None = None) -> None:
        """`times`: a file that gets a line for each measurement, with the process and when it began and ended by
        CLOCK_MONOTONIC, in ns."""
        self._measuring_s, self._times = measuring_s, times

    def screen(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, *, incumbent: Measurement | None = None
    ) -> Measurement:
        return self._measure(task, candidate, Stage.SCREEN)

    def race(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, *, live: LiveKernel | None, most_s: float
    ) -> Measurement:
        return self._measure(task, candidate, Stage.RACE)

    def confirm(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, *, live: LiveKernel | None = None, most_s: float
    ) -> Measurement:
        return self._measure(task, candidate, Stage.CONFIRM)

    def _measure(self, task: KernelTask, candidate: Candidate, stage: Stage) -> Measurement:
        with exclusive_slot():
            began_ns = time.monotonic_ns()
            time.sleep(self._measuring_s)
            ended_ns = time.monotonic_ns()
        if self._times is not None:
            with self._times.open("a") as file:
                file.write(f"{os.getpid()} {began_ns} {ended_ns}\n")
        speedup = 0.5 + 2.0 * _draw(candidate, "speed") ** 3
        chance = random.Random(f"{candidate.id} {task.id} {stage}")
        return Measurement.model_validate(vary(make_measurement(task, 1.0), chance, stage.value, speedup))
