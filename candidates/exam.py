"""Exam: one language model writes kernels for a set of tasks; what was asked, and how well it did."""

from typing import Self

from pydantic import Field, model_validator

from candidates.exam_statistics import wilson_interval
from candidates.measurement import Interval, Stage
from candidates.record import Record
from candidates.run import Request, SearchDecision
from candidates.spending import BudgetStop, ModelBudget

FAST_P = (1.0, 1.1, 1.5, 2.0)


class ExamTask(Record):
    task_id: str
    op: str


class ExamRequest(Request):
    """Every task is searched by the llm agent alone, which is told nothing of earlier searches."""

    endpoint: str
    model: str
    """Of the endpoint, as its server knows it."""
    is_priced: bool
    """False: dollars mean nothing."""
    tasks: tuple[ExamTask, ...] = Field(min_length=1)
    models: ModelBudget
    search_s: float = Field(gt=0)
    """A task, waiting for the model included."""
    attempts: int = Field(ge=1)
    """Kernels a task, at most."""
    last_stage: Stage
    """SCREEN: figures of five pairs, and nothing wins. CONFIRM: finalists are raced, the best is confirmed."""


class Share(Record):
    count: int = Field(ge=0)
    of: int = Field(ge=0)
    interval: Interval
    """95 %, by Wilson."""

    @property
    def value(self) -> float | None:
        return self.count / self.of if self.of else None

    @model_validator(mode="after")
    def _is_part(self) -> Self:
        if self.count > self.of:
            raise ValueError(f"{self.count} of {self.of} is no share")
        return self


def share_of(count: int, of: int) -> Share:
    return Share(count=count, of=of, interval=wilson_interval(count, of))


class FastShare(Record):
    """Tasks whose best kernel is faster than `p` times the best baseline."""

    p: float
    share: Share


class MeanSpeedup(Record):
    """Geometric mean over the tasks that have a right kernel; of each its speedup weighted by traffic."""

    speedup: float = Field(gt=0)
    interval: Interval
    """95 %, by bootstrap over tasks."""
    tasks: int = Field(ge=1)


class TaskResult(Record):
    """How the search for one task went."""

    task: str
    op: str
    decision: SearchDecision
    reason: str
    stop_reason: str
    samples: int = Field(ge=0)
    """Times that the model answered when it was asked for a kernel; asked again for the same one counts once."""
    judged: int = Field(ge=0)
    """Kernels in those answers that were new."""
    accepted: int = Field(ge=0)
    """By the judge, and not caught while they were screened."""
    candidate: str | None
    """The best kernel, if it withstood whatever stage it reached."""
    speedup_over_best: float | None
    """Of the candidate over the best baseline, weighted by traffic, at `stage`."""
    interval: Interval | None
    stage: Stage | None
    spend_usd: float | None
    """None: the endpoint has no price."""
    spend_tokens: int
    model_s: float
    """Summed over calls."""


class ExamReport(Record):
    """What one endpoint's part of `compiler-agent models rank --json` is. A task counts as correct if its best kernel
    was accepted and not caught later."""

    run_id: str
    endpoint: str
    model: str
    tasks: tuple[TaskResult, ...]
    tasks_correct: Share
    samples_accepted: Share
    fast_p: tuple[FastShare, ...]
    """Of all tasks; without a right kernel a task is not fast."""
    speedup: MeanSpeedup | None
    """None: no task has a right kernel."""
    stages: dict[Stage, int]
    """How many tasks' speedups are of which stage."""
    wins: int | None
    """Tasks whose kernel was confirmed; None where nothing was raced."""
    usd_per_win: float | None
    """None: no win, or no price."""
    spend_usd: float | None
    spend_tokens: int
    model_s: float
    """Of calls, summed; `wall_s` is the calendar's."""
    wall_s: float
    stop_reasons: dict[str, int]
    """How many searches ended for which kind of reason."""
    budget_stops: tuple[BudgetStop, ...]
