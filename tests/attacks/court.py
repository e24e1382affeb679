"""The whole path of a kernel of the corpus: builder, judge, then sanitizers or, where only a clock can tell, a race."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from ceilings_of_tests import generous_ceilings
from corpus import Kernel, Stage
from judge_tasks import BUILDER, SANDBOX

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark
from candidates.benchmark.track import CpuTrack
from candidates.judge.defences import ALL_DEFENCES, Defences
from candidates.judge.judge import Judge
from candidates.judge.sanitizers import Sanitizers
from candidates.languages.cpp import CppLanguage
from candidates.measurement import Baseline, Measurement
from candidates.verdict import Accepted, NeedsDevice, Rejected

MOST_PAIRS, MOST_S = 100, 6.0
CALL_LIMIT_S = 1.0

Outcome = Accepted | Measurement | Rejected | NeedsDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """A line of the table at the end of the run."""

    kernel: str
    task: str
    stage: str
    said: str
    seconds: float


HEARINGS: list[Hearing] = []


class Court:
    """Builds in the background what it will be asked about."""

    def __init__(self, pool: BaselinePool, cache_folder: Path, kernels: Sequence[Kernel]) -> None:
        self._pool = pool
        self._cache_folder = cache_folder
        self._sanitizers = Sanitizers(SANDBOX, CppLanguage())
        self._builders = ThreadPoolExecutor(1)
        self._artifacts: dict[Path, Future[bytes | Rejected]] = {}
        for kernel in kernels:
            self._build(kernel)

    def hear(self, kernel: Kernel, defences: Defences = ALL_DEFENCES) -> Outcome:
        """What becomes of the kernel in the end: its rejection, or what the last stage says of it."""
        began_s = time.monotonic()
        outcome = self._hear(kernel, defences)
        without = ", ".join(ALL_DEFENCES - defences)
        HEARINGS.append(
            Hearing(
                kernel=kernel.name,
                task=kernel.task_name,
                stage=kernel.stage.value,
                said=describe(outcome) + (f" without {without}" if without else ""),
                seconds=time.monotonic() - began_s,
            )
        )
        return outcome

    def screen(self, kernel: Kernel) -> Measurement | Rejected:
        artifact = self._build(kernel).result()
        if isinstance(artifact, Rejected):
            return artifact
        return self._benchmark(ALL_DEFENCES).screen(kernel.task, kernel.candidate, artifact)

    def _hear(self, kernel: Kernel, defences: Defences) -> Outcome:
        artifact = self._build(kernel).result()
        if isinstance(artifact, Rejected):
            return artifact
        judge = Judge(SANDBOX, call_limit_s=CALL_LIMIT_S, cache_folder=self._cache_folder, defences=defences)
        judged = judge.judge(kernel.task, kernel.candidate, artifact)
        if not isinstance(judged, Accepted):
            return judged
        if kernel.stage is Stage.JUDGE:
            # Where a defence is off the judge alone is asked: the sanitizers would catch some of it once more.
            sanitized = self._sanitizers.check(kernel.task, kernel.candidate) if defences == ALL_DEFENCES else None
            return sanitized if isinstance(sanitized, Rejected) else judged
        return self._benchmark(defences).race(
            kernel.task, kernel.candidate, artifact, most_pairs=MOST_PAIRS, most_s=MOST_S
        )

    def _benchmark(self, defences: Defences) -> Benchmark:
        wait(self._artifacts.values())  # a compiler beside it would disturb a race
        return Benchmark(
            CpuTrack(SANDBOX, self._pool, self._cache_folder, defences),
            generous_ceilings(),
            cache_folder=self._cache_folder,
            baselines=(Baseline.EAGER_OUT,),
            measure_again=lambda ceilings: ceilings,
            defences=defences,
        )

    def _build(self, kernel: Kernel) -> Future[bytes | Rejected]:
        if kernel.path not in self._artifacts:
            self._artifacts[kernel.path] = self._builders.submit(BUILDER.build, kernel.task, kernel.candidate)
        return self._artifacts[kernel.path]

    def close(self) -> None:
        self._builders.shutdown(cancel_futures=True)

    def __enter__(self) -> "Court":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def describe(outcome: Outcome) -> str:
    match outcome:
        case Rejected(reason=reason):
            return f"rejected: {reason.value}"
        case Measurement(decision=decision, traffic_weighted_speedup=speedup):
            return f"measured: {decision.value}, {speedup:.2f}x"
        case _:
            return outcome.outcome
