"""Results: what was judged and measured for a task, as FlashInfer-Bench documents.

Pure but for one thing: the largest error of an accepted kernel is worked out from its share of the bound, by running
the reference once for each workload.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf, isfinite
from typing import Any

import numpy as np
import torch

from candidates.candidate import Candidate
from candidates.device import DeviceFingerprint
from candidates.error_bound import allowed_error, row_scale
from candidates.exported_op import Obstructed
from candidates.inputs import Distribution, draw_inputs
from candidates.languages.cpp import FLAGS
from candidates.ledger.latest_words import Evaluation
from candidates.measurement import Baseline, Measurement, WorkloadMeasurement
from candidates.problems import documents as fib
from candidates.problems.problem import DefinitionDocuments
from candidates.problems.solution import solution_of
from candidates.problems.task_definition import define
from candidates.reference import run_oracle
from candidates.task import KernelTask, Workload
from candidates.verdict import Accepted, Reason, Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    candidate_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    definition: fib.Definition
    workloads: tuple[fib.Trace, ...]
    solutions: tuple[fib.Solution, ...]
    traces: tuple[fib.Trace, ...]
    left_out: tuple[LeftOut, ...]


def describe_results(
    task: KernelTask,
    documents: DefinitionDocuments | None,
    evaluations: Sequence[Evaluation],
    device: DeviceFingerprint | None,
    *,
    with_rejected: bool = False,
) -> Results:
    """`documents` are what the task was imported from; without them a definition is written from the task.

    Hidden workloads stay hidden. Raises Obstructed for a task that the layout cannot hold.
    """
    documents = documents or define(task)
    described = _Described(task, documents, device)
    for evaluation in evaluations:
        described.add(evaluation, with_rejected=with_rejected)
    return Results(
        definition=documents.definition,
        workloads=documents.workloads,
        solutions=tuple(described.solutions),
        traces=tuple(described.traces),
        left_out=tuple(described.left_out),
    )


def status_of(reason: Reason) -> fib.Status:
    """Where FlashInfer-Bench has no word for it, a runtime error; the trace's log says ours."""
    match reason:
        case Reason.BUILD_FAILED | Reason.FORBIDDEN_BUILD_FLAG:
            return fib.Status.COMPILE_ERROR
        case Reason.WRONG_VALUES | Reason.WRONG_NON_FINITE | Reason.OUTPUT_NOT_WRITTEN:
            return fib.Status.INCORRECT_NUMERICAL
        case Reason.TIMED_OUT:
            return fib.Status.TIMEOUT
        case _:
            return fib.Status.RUNTIME_ERROR


class _Described:
    def __init__(self, task: KernelTask, documents: DefinitionDocuments, device: DeviceFingerprint | None) -> None:
        self._task = task
        self._documents = documents
        self._environment = fib.Environment(
            hardware=device.model if device else task.device_id,
            libs={"torch": device.torch_version, "compiler": device.compiler} if device else {},
        )
        self._tolerances: dict[str, tuple[float, float]] = {}
        self.solutions: list[fib.Solution] = []
        self.traces: list[fib.Trace] = []
        self.left_out: list[LeftOut] = []

    def add(self, evaluation: Evaluation, *, with_rejected: bool) -> None:
        attempt = evaluation.attempt
        candidate, verdict = attempt.proposal.candidate, attempt.verdict
        match verdict:
            case Accepted():
                traces = self._passed(verdict, attempt.measurement, candidate, evaluation.evaluated_at)
            case Rejected() if with_rejected and verdict.workload != "hidden":
                traces = self._failed(verdict, candidate, evaluation.evaluated_at)
            case Rejected() if with_rejected:
                return self._leave_out(candidate, "it failed at a shape that is not shown")
            case Rejected():
                return self._leave_out(candidate, f"it was rejected: {verdict.reason.value}")
            case _:
                return self._leave_out(candidate, "it was not judged on this device")
        try:
            self.solutions.append(self._solution(candidate))
        except Obstructed as obstructed:
            return self._leave_out(candidate, str(obstructed))
        self.traces += traces

    def _leave_out(self, candidate: Candidate, reason: str) -> None:
        self.left_out.append(LeftOut(candidate_id=candidate.id, reason=reason))

    def _solution(self, candidate: Candidate) -> fib.Solution:
        return solution_of(
            self._task,
            self._documents,
            candidate,
            name=self._name(candidate),
            description=f"Judged and measured as built by g++ {' '.join((*FLAGS, *candidate.build_flags))}",
        )

    def _name(self, candidate: Candidate) -> str:
        return f"{self._documents.definition.name}_{candidate.id[:12]}"

    def _passed(
        self, verdict: Accepted, measurement: Measurement | None, candidate: Candidate, at: datetime
    ) -> list[fib.Trace]:
        traces: list[fib.Trace] = []
        public = {workload.name: workload for workload in self._task.public_workloads}
        for measured in measurement.workloads if measurement else ():
            absolute, relative = self._largest_errors(public[measured.workload])
            correctness = fib.Correctness.model_validate(
                {
                    "max_relative_error": verdict.worst_error_in_bounds * relative,
                    "max_absolute_error": verdict.worst_error_in_bounds * absolute,
                    "extra": {
                        "worst_error_in_bounds": verdict.worst_error_in_bounds,
                        "relative_to": "the largest magnitude in the row",
                    },
                }
            )
            evaluation = fib.Evaluation(
                status=fib.Status.PASSED.value,
                environment=self._environment,
                timestamp=at.isoformat(),
                log="",
                correctness=correctness,
                performance=_performance(measured, measurement),
            )
            traces += self._traces(candidate, public[measured.workload], evaluation)
        return traces

    def _failed(self, verdict: Rejected, candidate: Candidate, at: datetime) -> list[fib.Trace]:
        status = status_of(verdict.reason)
        fields: dict[str, Any] = {
            "status": status.value,
            "environment": self._environment,
            "timestamp": at.isoformat(),
            "log": f"{verdict.reason.value}: {verdict.evidence.message}",
        }
        if status is fib.Status.INCORRECT_NUMERICAL:
            fields["correctness"] = _wrongness(verdict)
        evaluation = fib.Evaluation.model_validate(fields)
        failed = [w for w in self._task.public_workloads if verdict.workload in (None, w.name)]
        return [trace for workload in failed for trace in self._traces(candidate, workload, evaluation)]

    def _traces(self, candidate: Candidate, workload: Workload, evaluation: fib.Evaluation) -> list[fib.Trace]:
        """One for every line of the definition's workloads with these sizes."""
        return [
            fib.Trace(
                definition=line.definition,
                workload=line.workload,
                solution=self._name(candidate),
                evaluation=evaluation,
            )
            for line in self._documents.workloads
            if {axis: line.workload.axes[axis] for axis in self._task.axes} == workload.axes
        ]

    def _largest_errors(self, workload: Workload) -> tuple[float, float]:
        """The task's bound at its widest on normal inputs: absolute, and relative to the row's largest magnitude."""
        if workload.name not in self._tolerances:
            inputs = draw_inputs(self._task, workload, Distribution.NORMAL, np.random.default_rng(0))
            absolute = relative = 0.0
            results = run_oracle(self._task, inputs)
            for spec in self._task.outputs:
                exact = results[spec.name]
                if exact.is_floating_point():
                    allowed = allowed_error(self._task.error_bound, exact, getattr(torch, spec.element_type.value))
                    absolute = max(absolute, float(allowed.max()))
                    relative = max(relative, float((allowed / row_scale(exact)).max()))
            self._tolerances[workload.name] = absolute, relative
        return self._tolerances[workload.name]


def _performance(measured: WorkloadMeasurement, measurement: Measurement | None) -> fib.Performance:
    """Its reference is eager PyTorch; what we count, over the best of all baselines, stands beside it."""
    baselines = measured.baselines_us
    reference_us = baselines.get(Baseline.EAGER, baselines.get(Baseline.EAGER_OUT, baselines[measured.best_baseline]))
    return fib.Performance.model_validate(
        {
            "latency_ms": measured.candidate_us / 1e3,
            "reference_latency_ms": reference_us / 1e3,
            "speedup_factor": reference_us / measured.candidate_us,
            "compiler_agent": measured.model_dump(mode="json", exclude={"workload"})
            | ({"stage": measurement.stage.value, "threads": measurement.threads} if measurement else {}),
        }
    )


def _wrongness(verdict: Rejected) -> fib.Correctness:
    """Of the worst element; infinite where a number should be and none is, or where nothing was written."""
    absolute = relative = inf
    worst = verdict.evidence.worst
    if worst is not None:
        expected, got = float(worst.expected), float(worst.got)
        if isfinite(expected) and isfinite(got):
            absolute = abs(got - expected)
            relative = absolute / abs(expected) if expected else inf
    return fib.Correctness(max_relative_error=relative, max_absolute_error=absolute)
