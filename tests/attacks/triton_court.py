"""What becomes of Triton kernels of the corpus: the rules for their source, then the judge with Triton's interpreter.

They are not compiled here: that a build refuses what does not compile is shown with the language.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from corpus import TRITON, Kernel
from court import HEARINGS, Hearing, Outcome, describe
from judge_tasks import SANDBOX

from candidates.judge.judge import Judge
from candidates.language import SourceRefused
from candidates.verdict import Evidence, Rejected

Judged = tuple[Outcome, float]


class TritonCourt:
    """Judges in the background, two at a time, what it will be asked about and the rules let through."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._judges = ThreadPoolExecutor(2)
        self._judged: dict[Path, Future[Judged]] = {}
        for kernel in kernels:
            if _refusal(kernel) is None:
                self._judge(kernel)

    def hear(self, kernel: Kernel) -> Outcome:
        if refused := _refusal(kernel):
            _record(kernel, "source", describe(refused), 0.0)
            return refused
        return self.hear_judge(kernel)

    def hear_judge(self, kernel: Kernel) -> Outcome:
        """Without rules for the source."""
        outcome, seconds = self._judge(kernel).result()
        _record(kernel, "judge", describe(outcome), seconds)
        return outcome

    def _judge(self, kernel: Kernel) -> Future[Judged]:
        if kernel.path not in self._judged:
            self._judged[kernel.path] = self._judges.submit(_judge, kernel)
        return self._judged[kernel.path]

    def close(self) -> None:
        self._judges.shutdown(cancel_futures=True)


def _refusal(kernel: Kernel) -> Rejected | None:
    """Of the rules for its source."""
    try:
        TRITON.language.build_recipe(kernel.task, kernel.candidate)
    except SourceRefused as refusal:
        evidence = Evidence(message=str(refusal))
        return Rejected(reason=refusal.reason, workload=None, evidence=evidence, seed=0)
    return None


def _judge(kernel: Kernel) -> Judged:
    began_s = time.monotonic()
    outcome = Judge(SANDBOX).judge(kernel.task, kernel.candidate, b"")
    return outcome, time.monotonic() - began_s


def _record(kernel: Kernel, stage: str, said: str, seconds: float) -> None:
    hearing = Hearing(kernel=f"triton/{kernel.name}", task=kernel.task_name, stage=stage, said=said, seconds=seconds)
    if not any((each.kernel, each.stage) == (hearing.kernel, stage) for each in HEARINGS):
        HEARINGS.append(hearing)
