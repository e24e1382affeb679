"""fill: a ledger as years of nightly runs leave it, for measuring what pages cost over one.

Its candidates were never built: sources, figures and times are made up (`leaderboard_records`, `leaderboard_runs`), the
numbers and sizes of facts are what counts. Standings are made by the ledger's own rule.
"""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from benchmarks.bulk_insert import BulkInsert, bulk_insert
from benchmarks.leaderboard_records import (
    MODELS,
    Kernel,
    Kernels,
    make_attempt,
    make_ceilings,
    make_devices,
    make_measurement,
    make_tasks,
    vary,
)
from benchmarks.leaderboard_runs import (
    SearchPast,
    make_end_to_end,
    make_progress,
    make_promotion,
    make_ranking,
    make_replay,
    make_report,
    make_request,
    make_search_end,
)
from candidates.agent import Attempt
from candidates.device import DeviceFingerprint
from candidates.ledger import standings
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import (
    AttemptRow,
    BuildRow,
    CandidateRow,
    MeasurementRow,
    ProgressRow,
    PromotionRow,
    RetractionRow,
    RunEndRow,
    RunRow,
    SearchEndRow,
    StageRow,
    TaskRow,
)
from candidates.measurement import Measurement
from candidates.promotion import Retraction
from candidates.record import Record, digest_of
from candidates.run import BuildRecord, Stage
from candidates.task import KernelTask

_LOG = logging.getLogger(__name__)

_FIRST_RUN = datetime(2026, 6, 1, 2, 0, tzinfo=UTC)
_SPAN = timedelta(days=180)
_MONTHS = 6
_SEARCHES_A_RUN = 8
_PROGRESS_LINES_A_RUN = 67
_WEIGHT_OF_LARGEST = 2.4
"""Candidates of the op that everybody works at, over those of another: 8,000 of 100,000 at one device."""
_VALIDATED_ONE_IN = 997


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    id: str
    model: str
    began_at: datetime
    tasks: tuple[KernelTask, ...]


@dataclass(slots=True, kw_only=True)
class _TaskPast:
    """Of one task, so far."""

    template: dict[str, Any]
    kernels: list[Kernel] = field(default_factory=list)
    accepted: list[Kernel] = field(default_factory=list)


def fill(
    ledger: Ledger, *, candidates: int = 100_000, measurements: int = 1_000_000, runs: int = 1_000, seed: int = 0
) -> None:
    """Into an empty ledger. ValueError: so many measurements would not fit the runs."""
    began_s = time.monotonic()
    chance = random.Random(seed)
    devices = make_devices()
    for device in devices:
        ledger.put_device(device)
        ledger.put_ceilings(make_ceilings(device))
    plan = list(_plan_runs(devices, runs, chance))
    with bulk_insert(ledger.engine) as rows:
        _put_runs(rows, plan, chance)
        known = _put_attempts(rows, plan, candidates, seed, chance)
        _LOG.info("attempts after %.0f s", time.monotonic() - began_s)
        _put_outcomes(rows, plan, known, measurements, chance)
    _LOG.info("facts after %.0f s", time.monotonic() - began_s)
    with Session(ledger.engine) as session, session.begin():
        standings.rebuild(session)
    _LOG.info("standings after %.0f s", time.monotonic() - began_s)


def _plan_runs(devices: Sequence[DeviceFingerprint], runs: int, chance: random.Random) -> Iterator[_Run]:
    tasks: dict[tuple[str, str, int], tuple[KernelTask, ...]] = {}
    for number in range(runs):
        model = chance.choices(MODELS, (50, 25, 25))[0]
        device = chance.choices(devices, (60, 25, 15))[0]
        month = number * _MONTHS // runs
        key = (model, device.id, month)
        if key not in tasks:
            tasks[key] = make_tasks(device, model, month)
        began_at = _FIRST_RUN + _SPAN * (number / runs)
        yield _Run(
            id=f"run-{began_at:%Y%m%d-%H%M%S}-{number:04d}",
            model=model,
            began_at=began_at,
            # The first op is the one that everybody works at.
            tasks=(tasks[key][0], *chance.sample(tasks[key][1:], _SEARCHES_A_RUN - 1)),
        )


def _put_runs(rows: BulkInsert, plan: Sequence[_Run], chance: random.Random) -> None:
    seen: set[str] = set()
    for number, run in enumerate(plan):
        request = make_request(run.model, number)
        rows.add(RunRow, run.began_at, _json(request), run_id=run.id, request_digest=request.digest)
        for task in run.tasks:
            if task.id not in seen:
                seen.add(task.id)
                rows.add(TaskRow, run.began_at, _json(task), task_id=task.id, op=task.op)
        for line, progress in enumerate(make_progress([t.op for t in run.tasks], _PROGRESS_LINES_A_RUN, chance)):
            rows.add(ProgressRow, run.began_at + timedelta(seconds=10 * line), _json(progress), run_id=run.id)


def _put_attempts(
    rows: BulkInsert, plan: Sequence[_Run], candidates: int, seed: int, chance: random.Random
) -> dict[tuple[str, str], list[Kernel]]:
    """Kernels that each search could measure: what was accepted for the task until then, by run and task."""
    kernels, pasts = Kernels(seed), dict[str, _TaskPast]()
    weights = [_weight(run, task, plan[0].tasks) for run in plan for task in run.tasks]
    shares = iter(_shares(candidates, weights))
    known: dict[tuple[str, str], list[Kernel]] = {}
    for run in plan:
        for task in run.tasks:
            past = pasts.setdefault(task.id, _TaskPast(template=make_measurement(task, 1.0)))
            for number in range(next(shares)):
                parent = chance.choice(past.kernels[-40:]) if past.kernels and chance.random() < 0.7 else None
                kernel, candidate = kernels.make(task, parent)
                attempt = make_attempt(kernel, candidate, task, parent, past.template, chance)
                if kernels.made % _VALIDATED_ONE_IN == 0:
                    _check_attempt(kernel, attempt)
                moment = run.began_at + timedelta(seconds=60 + 5 * number)
                rows.add(CandidateRow, moment, candidate, candidate_id=kernel.id)
                place = {"run_id": run.id, "task_id": task.id, "candidate_id": kernel.id}
                rows.add(AttemptRow, moment, attempt, **place, outcome=kernel.outcome)
                past.kernels.append(kernel)
                if kernel.outcome == "accepted":
                    past.accepted.append(kernel)
            known[run.id, task.id] = list(past.accepted)
    return known


def _check_attempt(kernel: Kernel, record: dict[str, Any]) -> None:
    attempt = Attempt.model_validate(record)
    if attempt.proposal.candidate.id != kernel.id or _json(attempt) != record:
        raise ValueError(f"the made-up attempt of {kernel.id[:12]} is not as the ledger would have written it")


def _put_outcomes(
    rows: BulkInsert,
    plan: Sequence[_Run],
    known: dict[tuple[str, str], list[Kernel]],
    measurements: int,
    chance: random.Random,
) -> None:
    """Measurements, ends of searches, promotions, builds and reports of all runs."""
    possible = [2 * len(kernels) for kernels in known.values()]
    if measurements > sum(possible):
        raise ValueError(f"{measurements} measurements do not fit these runs: {sum(possible)} do")
    counts = dict(zip(known, _shares(measurements, possible), strict=True))
    for number, run in enumerate(plan):
        searches, promoted = [], dict[str, Kernel]()
        for task in run.tasks:
            place = (run.id, task.id)
            best = _put_measurements(rows, run, task, known[place], counts[place], chance)
            share = 0.02 + 0.2 * chance.random()
            search = SearchPast(task=task, best=best, share_of_time=share, tried=len(known[place]))
            searches.append(search)
            end = make_search_end(search)
            rows.add(SearchEndRow, run.began_at + timedelta(minutes=9), _json(end), run_id=run.id, task_id=task.id)
            if best is not None and search.decision != "lost":
                promoted[task.id] = best
                decision, moment = make_promotion(search, best), run.began_at + timedelta(minutes=9.5)
                rows.add(PromotionRow, moment, _json(decision), run_id=run.id, task_id=task.id, candidate_id=best.id)
        _put_end(rows, run, searches, chance)
        if number % 80 == 40 and promoted:
            kernel = next(iter(promoted.values()))
            flaw = Retraction(candidate_id=kernel.id, reason="wrong beside a padded batch", by="a person")
            rows.add(RetractionRow, run.began_at + timedelta(days=1), _json(flaw), candidate_id=kernel.id)


def _put_measurements(
    rows: BulkInsert, run: _Run, task: KernelTask, kernels: Sequence[Kernel], count: int, chance: random.Random
) -> Kernel | None:
    """The fastest of those that were measured, or of all."""
    template, order = make_measurement(task, 1.0), chance.sample(kernels, len(kernels))
    staged = [("race", kernel) for kernel in order] + [("confirm", kernel) for kernel in order]
    for number, (stage, kernel) in enumerate(staged[:count]):
        speedup = kernel.speedup * (0.98 + 0.04 * chance.random())
        record = vary(template, chance, stage, speedup)
        if chance.randrange(_VALIDATED_ONE_IN) == 0 and _json(Measurement.model_validate(record)) != record:
            raise ValueError(f"the made-up measurement of {kernel.id[:12]} is not as the ledger would have written it")
        rows.add(
            MeasurementRow,
            run.began_at + timedelta(seconds=300 + number / 10),
            record,
            run_id=run.id,
            task_id=task.id,
            candidate_id=kernel.id,
            stage=stage,
            speedup=speedup,
        )
    return max(order[:count] or order, key=lambda kernel: kernel.speedup, default=None)


def _put_end(rows: BulkInsert, run: _Run, searches: Sequence[SearchPast], chance: random.Random) -> None:
    moment = run.began_at + timedelta(minutes=10)
    ranking, replay, end_to_end = make_ranking(searches), make_replay(chance), None
    won = {search.task.id: search.best for search in searches if search.best is not None and search.decision == "won"}
    if won:
        build_id = digest_of([run.id, *won])
        build = BuildRecord(id=build_id, path=f"/var/builds/{build_id}", task_ids=tuple(won))
        end_to_end = make_end_to_end(build_id, 0.98 + 0.5 * chance.random(), [kernel.id for kernel in won.values()])
        rows.add(BuildRow, moment, _json(build), run_id=run.id, build_id=build_id)
        rows.add(StageRow, moment, _json(end_to_end), run_id=run.id, stage=Stage.END_TO_END.value)
    rows.add(StageRow, moment, _json(replay), run_id=run.id, stage=Stage.REPLAY.value)
    rows.add(StageRow, moment, _json(ranking), run_id=run.id, stage=Stage.RANKING.value)
    report = make_report(run.id, replay, ranking, searches, end_to_end)
    rows.add(RunEndRow, moment + timedelta(minutes=1), _json(report), run_id=run.id)


def _weight(run: _Run, task: KernelTask, first: Sequence[KernelTask]) -> float:
    is_largest = task.op == first[0].op and task.device_id == first[0].device_id
    return _WEIGHT_OF_LARGEST if is_largest else 1.0


def _shares(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers in proportion to the weights, that sum to the total; none above its weight where the sum allows."""
    shares, given, sofar, whole = [], 0, 0.0, sum(weights)
    for weight in weights:
        sofar += weight
        until = round(total * sofar / whole) if whole else 0
        shares.append(until - given)
        given = until
    return shares


def _json(record: Record) -> dict[str, Any]:
    return record.model_dump(mode="json")
