"""ServiceMetrics: how the service is and what it has come to, as Prometheus reads it.

Counts are of the whole ledger, so that they outlive every process; what a worker does at the moment its own metrics
say (`compiler_agent.telemetry`).
"""

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import (
    AttemptRow,
    ModelCallEndRow,
    NightRow,
    PromotionRow,
    RetractionRow,
    RunEndRow,
    RunFailureRow,
    RunRow,
    SpendAccountRow,
    in_utc,
)
from compiler_agent.outcome import UserFault
from compiler_agent.program_health import ProgramState
from compiler_agent.service_status import ServiceStatus, read_service_status
from compiler_agent.settings import Settings
from compiler_agent.user_faults import as_user_fault

FRESH_S = 5.0
_PREFIX = "compiler_agent"
_COUNTED = {
    "attempts": (AttemptRow.outcome, "Candidates judged in runs, by verdict."),
    "model_calls": (ModelCallEndRow.outcome, "Calls to language models, by how they ended."),
    "nights": (NightRow.outcome, "Nights of schedules, by what became of them."),
}
_SUMMED = {
    "runs_begun": (RunRow.sequence, "Runs that were begun."),
    "runs_ended": (RunEndRow.sequence, "Runs that came to their end."),
    "run_failures": (RunFailureRow.sequence, "Times that a run could not go on."),
    "promotions": (PromotionRow.sequence, "Decisions on winners of a search."),
    "retractions": (RetractionRow.sequence, "Flaws found in a kernel later."),
}


class ServiceMetrics(Collector):
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reading = threading.Lock()
        self._read: Sequence[Metric] = ()
        self._read_at_s = -math.inf

    def collect(self) -> Iterable[Metric]:
        """What cannot be read is missing, and `compiler_agent_problems` counts it. Whoever asks within FRESH_S of
        another gets the same: many that ask at once would take the database's connections from the workers."""
        with self._reading:
            if time.monotonic() - self._read_at_s > FRESH_S:
                self._read = tuple(self._collect())
                self._read_at_s = time.monotonic()
            return self._read

    def _collect(self) -> Iterator[Metric]:
        try:
            status = read_service_status(self._settings)
        except UserFault:
            yield _gauge("problems", "Things that the service needs and misses.", 1.0)
            return
        yield from _of_status(status)
        if status.ledger is not None:
            try:
                yield from self._of_ledger()
            except Exception as error:
                if as_user_fault(error) is None:
                    raise

    def _of_ledger(self) -> list[Metric]:
        ledger = Ledger(self._settings.ledger_url)
        try:
            return list(_of_ledger(ledger))
        finally:
            ledger.engine.dispose()


def _of_status(status: ServiceStatus) -> Iterator[Metric]:
    yield _gauge("problems", "Things that the service needs and misses.", len(status.problems))
    yield _gauge("home_free_bytes", "Room on the disk of the home.", status.free_bytes)
    backlog = GaugeMetricFamily(f"{_PREFIX}_queue_backlog", "Tasks that wait for a worker, about.", labels=["queue"])
    workers = GaugeMetricFamily(f"{_PREFIX}_queue_workers", "Workers that have asked lately.", labels=["queue"])
    for queue in () if status.temporal is None else status.temporal.queues:
        backlog.add_metric([queue.queue], queue.backlog)
        workers.add_metric([queue.queue], queue.workers)
    yield from (backlog, workers)
    ready = GaugeMetricFamily(f"{_PREFIX}_program_ready", "1: it serves.", labels=["program"])
    restarts = CounterMetricFamily(
        f"{_PREFIX}_program_restarts", "Times that `up` started it again.", labels=["program"]
    )
    for program in () if status.up is None else status.up.programs:
        ready.add_metric([program.name], program.state is ProgramState.READY)
        restarts.add_metric([program.name], program.restarts)
    yield from (ready, restarts)


def _of_ledger(ledger: Ledger) -> Iterator[Metric]:
    with Session(ledger.reader) as session:
        for name, (column, sentence) in _COUNTED.items():
            yield _by_outcome(session, name, column, sentence)
        for name, (number, sentence) in _SUMMED.items():
            count = session.scalar(select(func.count(number))) or 0
            yield CounterMetricFamily(f"{_PREFIX}_{name}", sentence, value=count)
        # Each op has an account within its run's.
        of_runs = select(func.sum(SpendAccountRow.used_nano_usd)).where(SpendAccountRow.account_id.not_like("%/%"))
        spent = session.scalar(of_runs) or 0
        yield CounterMetricFamily(f"{_PREFIX}_model_spend_usd", "What language models cost.", value=float(spent) * 1e-9)
        ended = session.scalar(select(func.max(RunEndRow.recorded_at)))
        if ended is not None:
            yield _gauge("last_run_end_seconds", "When a run last ended, since 1970.", in_utc(ended).timestamp())


def _by_outcome(session: Session, name: str, column: InstrumentedAttribute[str], sentence: str) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", sentence, labels=["outcome"])
    for outcome, count in session.execute(select(column, func.count()).group_by(column).order_by(column)):
        family.add_metric([outcome], count)
    return family


def _gauge(name: str, sentence: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", sentence, value=value)
