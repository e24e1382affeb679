"""Ledger: writing and reading facts as records.

Writing a fact twice is writing it once: every write is keyed, and the first one stays. That makes activities safe to
retry. It keeps no judgement of its own; decisions are pure functions elsewhere.
"""

from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Engine, Select, delete, func, select, true
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.candidate import Candidate
from candidates.device import DeviceCeilings, DeviceFingerprint
from candidates.device_model import DeviceModel
from candidates.exam import ExamReport, ExamRequest
from candidates.ledger import standings
from candidates.ledger.database import commit_in_order, id_begins_with, is_repetition, open_database, reading_of
from candidates.ledger.tables import (
    ArtifactRow,
    AttemptRow,
    BuildRow,
    CandidateRow,
    DeviceRow,
    Fact,
    MeasurementRow,
    ProblemRow,
    ProgressRow,
    PromotionRow,
    PrunedBlobRow,
    RunEndRow,
    RunRow,
    SearchEndRow,
    StageRow,
    Table,
    TaskRow,
    in_utc,
)
from candidates.measurement import Measurement
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import PromotionDecision
from candidates.record import Record
from candidates.run import (
    BuildRecord,
    NightlyRequest,
    Progress,
    PromoteRequest,
    Request,
    RunReport,
    RunRequest,
    SearchEnd,
    TuneReport,
    TuneRequest,
)
from candidates.task import KernelTask

R = TypeVar("R", bound=Record)

AnyRequest = RunRequest | PromoteRequest | NightlyRequest | TuneRequest | ExamRequest
AnyReport = RunReport | TuneReport | ExamReport

_REQUEST: TypeAdapter[AnyRequest] = TypeAdapter(AnyRequest)
_REPORT: TypeAdapter[AnyReport] = TypeAdapter(AnyReport)


class LedgerError(Exception):
    """What was asked for is not in the ledger, or an id prefix is not unique; the message says which."""


class RecordedProgress(NamedTuple):
    sequence: int
    recorded_at: datetime
    progress: Progress


class RunEntry(NamedTuple):
    number: int
    """Larger than that of every run before."""
    run_id: str
    started_at: datetime
    ended_at: datetime | None
    request: AnyRequest
    report: AnyReport | None


class Ledger:
    def __init__(self, url: str) -> None:
        """`url` is SQLAlchemy's: `sqlite:////var/lib/agent/ledger.sqlite`, `postgresql+psycopg://…`.

        Raises what `open_database` raises.
        """
        self._engine = open_database(url, standings.rebuild)
        self._reader = reading_of(self._engine)

    @property
    def engine(self) -> Engine:
        """For the other stores in the same database."""
        return self._engine

    @property
    def reader(self) -> Engine:
        """For statements that only read."""
        return self._reader

    # Runs

    def open_run(self, request: Request, run_id: str) -> str:
        """The id of the latest unfinished run of an equal request, else `run_id`, recorded as a new run."""
        with Session(self._reader) as session:
            unfinished = session.scalars(
                select(RunRow.run_id)
                .outerjoin(RunEndRow, RunEndRow.run_id == RunRow.run_id)
                .where(RunRow.request_digest == request.digest, RunEndRow.run_id.is_(None))
                .order_by(RunRow.sequence.desc())
            ).first()
        if unfinished is not None:
            return unfinished
        run = RunRow(run_id=run_id, request_digest=request.digest, record=_json(request))
        self.insert(run, in_order_of="runs")  # who opens one sees every run of a lower number
        return run_id

    def run_request(self, run_id: str) -> RunRequest:
        """Of a run from a trace to a build, or of a promotion."""
        kinds: Any = RunRequest | PromoteRequest | NightlyRequest
        request: RunRequest = self._one(kinds, select(RunRow).where(RunRow.run_id == run_id), f"run {run_id}")
        return request

    def exam_request(self, run_id: str) -> ExamRequest:
        return self._one(ExamRequest, select(RunRow).where(RunRow.run_id == run_id), f"exam {run_id}")

    def run_age_s(self, run_id: str) -> float:
        """Seconds since the run began."""
        with Session(self._reader) as session:
            began = session.scalars(select(RunRow.recorded_at).where(RunRow.run_id == run_id)).one()
        return (datetime.now(UTC) - in_utc(began)).total_seconds()

    def end_run(self, report: AnyReport) -> None:
        self.insert(RunEndRow(run_id=report.run_id, record=_json(report)))

    def report(self, run_id: str) -> AnyReport | None:
        """None: the run has not ended."""
        with Session(self._reader) as session:
            record = session.scalars(select(RunEndRow.record).where(RunEndRow.run_id == run_id)).first()
        return None if record is None else _REPORT.validate_python(record)

    def latest_report(self, request: Request) -> AnyReport | None:
        """Of the latest run of an equal request; None where there is none, or it has not ended."""
        with Session(self._reader) as session:
            runs = select(RunRow.run_id).where(RunRow.request_digest == request.digest)
            latest = session.scalars(runs.order_by(RunRow.sequence.desc())).first()
        return None if latest is None else self.report(latest)

    def run(self, run_id: str) -> RunEntry | None:
        return next(iter(self._runs(RunRow.run_id == run_id)), None)

    def runs(self, limit: int | None = None, before: int | None = None) -> tuple[RunEntry, ...]:
        """Newest first; `before`: those with a smaller number alone."""
        return self._runs(RunRow.sequence < before if before is not None else true(), limit)

    def count_runs(self) -> int:
        with Session(self._reader) as session:
            return session.scalars(select(func.count()).select_from(RunRow)).one()

    def _runs(self, condition: ColumnElement[bool], limit: int | None = None) -> tuple[RunEntry, ...]:
        statement = (
            select(RunRow, RunEndRow)
            .outerjoin(RunEndRow, RunEndRow.run_id == RunRow.run_id)
            .where(condition)
            .order_by(RunRow.sequence.desc())
            .limit(limit)
        )
        with Session(self._reader) as session:
            return tuple(
                RunEntry(
                    number=run.sequence,
                    run_id=run.run_id,
                    started_at=in_utc(run.recorded_at),
                    ended_at=None if end is None else in_utc(end.recorded_at),
                    request=_REQUEST.validate_python(run.record),
                    report=None if end is None else _REPORT.validate_python(end.record),
                )
                for run, end in session.execute(statement)
            )

    def add_progress(self, run_id: str, progress: Progress) -> None:
        with Session(self._engine) as session, session.begin():
            commit_in_order(session, run_id)
            session.add(ProgressRow(run_id=run_id, record=_json(progress)))

    def progress_after(self, run_id: str, sequence: int) -> tuple[RecordedProgress, ...]:
        statement = (
            select(ProgressRow)
            .where(ProgressRow.run_id == run_id, ProgressRow.sequence > sequence)
            .order_by(ProgressRow.sequence)
        )
        with Session(self._reader) as session:
            return tuple(
                RecordedProgress(row.sequence, in_utc(row.recorded_at), Progress.model_validate(row.record))
                for row in session.scalars(statement)
            )

    def put_stage(self, run_id: str, stage: str, record: Record) -> None:
        self.insert(StageRow(run_id=run_id, stage=stage, record=_json(record)))

    def stage(self, run_id: str, stage: str, kind: type[R]) -> R | None:
        return self._maybe(kind, select(StageRow).where(StageRow.run_id == run_id, StageRow.stage == stage))

    # Devices

    def put_device(self, fingerprint: DeviceFingerprint) -> None:
        self.insert(DeviceRow(device_id=fingerprint.id, record=_json(fingerprint)))

    def device(self, device_id: str) -> DeviceFingerprint | None:
        return self._maybe(DeviceFingerprint, select(DeviceRow).where(DeviceRow.device_id == device_id))

    def put_ceilings(self, ceilings: DeviceCeilings) -> None:
        self.insert(DeviceRow(device_id=_ceilings_key(ceilings.device_id, ceilings.threads), record=_json(ceilings)))

    def ceilings(self, device_id: str, threads: int) -> DeviceCeilings | None:
        key = _ceilings_key(device_id, threads)
        return self._maybe(DeviceCeilings, select(DeviceRow).where(DeviceRow.device_id == key))

    def put_device_model(self, device_id: str, model_digest: str, device_model: DeviceModel) -> None:
        self.insert(DeviceRow(device_id=_device_model_key(device_id, model_digest), record=_json(device_model)))

    def device_model(self, device_id: str, model_digest: str) -> DeviceModel | None:
        key = _device_model_key(device_id, model_digest)
        return self._maybe(DeviceModel, select(DeviceRow).where(DeviceRow.device_id == key))

    # Tasks and candidates

    def put_task(self, task: KernelTask) -> None:
        self.insert(TaskRow(task_id=task.id, op=task.op, record=_json(task)))

    def task(self, id_prefix: str) -> KernelTask:
        statement = select(TaskRow).where(id_begins_with(TaskRow.task_id, id_prefix))
        return self._one(KernelTask, statement, f"task {id_prefix}")

    def tasks(self) -> tuple[KernelTask, ...]:
        """Newest first."""
        return self._all(KernelTask, select(TaskRow).order_by(TaskRow.sequence.desc()))

    def put_problem(self, task_id: str, problem: Record) -> None:
        self.insert(ProblemRow(task_id=task_id, record=_json(problem)))

    def problem(self, task_id: str, kind: type[R]) -> R | None:
        return self._maybe(kind, select(ProblemRow).where(ProblemRow.task_id == task_id))

    def put_candidate(self, candidate: Candidate) -> None:
        self.insert(CandidateRow(candidate_id=candidate.id, record=_json(candidate)))

    def candidate(self, id_prefix: str) -> Candidate:
        statement = select(CandidateRow).where(id_begins_with(CandidateRow.candidate_id, id_prefix))
        return self._one(Candidate, statement, f"candidate {id_prefix}")

    def put_artifact(self, task_id: str, candidate_id: str, blob: str) -> None:
        self.insert(ArtifactRow(task_id=task_id, candidate_id=candidate_id, blob=blob, record={}))
        with Session(self._reader) as session:
            was_pruned = session.get(PrunedBlobRow, blob) is not None
        if was_pruned:
            with Session(self._engine) as session, session.begin():
                session.execute(delete(PrunedBlobRow).where(PrunedBlobRow.blob == blob))

    def artifact(self, task_id: str, candidate_id: str) -> str | None:
        """The blob that holds the bytes built last; None: it was never built, or its blob was pruned."""
        with Session(self._reader) as session:
            return session.scalars(
                select(ArtifactRow.blob)
                .outerjoin(PrunedBlobRow, PrunedBlobRow.blob == ArtifactRow.blob)
                .where(ArtifactRow.task_id == task_id, ArtifactRow.candidate_id == candidate_id)
                .where(PrunedBlobRow.blob.is_(None))
                .order_by(ArtifactRow.sequence.desc())
            ).first()

    # Attempts, measurements, ends of searches

    def put_attempt(self, run_id: str, task_id: str, attempt: Attempt) -> bool:
        """False: it is there already."""
        return self.insert(
            AttemptRow(
                run_id=run_id,
                task_id=task_id,
                candidate_id=attempt.proposal.candidate.id,
                outcome=attempt.verdict.outcome,
                record=_json(attempt),
            )
        )

    def attempts(self, run_id: str, task_id: str) -> tuple[Attempt, ...]:
        """In the order in which they were made."""
        statement = select(AttemptRow).where(AttemptRow.run_id == run_id, AttemptRow.task_id == task_id)
        return self._all(Attempt, statement.order_by(AttemptRow.sequence))

    def put_measurement(self, run_id: str, task_id: str, candidate_id: str, measurement: Measurement) -> Measurement:
        """The one that counts: an earlier of the same stage of the run, where there is one."""
        is_first = self.insert(
            MeasurementRow(
                run_id=run_id,
                task_id=task_id,
                candidate_id=candidate_id,
                stage=measurement.stage.value,
                speedup=measurement.traffic_weighted_speedup,
                record=_json(measurement),
            )
        )
        known = None if is_first else self.measurement(run_id, task_id, candidate_id, measurement.stage)
        return measurement if known is None else known

    def measurement(self, run_id: str, task_id: str, candidate_id: str, stage: MeasurementStage) -> Measurement | None:
        statement = select(MeasurementRow).where(
            MeasurementRow.run_id == run_id,
            MeasurementRow.task_id == task_id,
            MeasurementRow.candidate_id == candidate_id,
            MeasurementRow.stage == stage.value,
        )
        return self._maybe(Measurement, statement)

    def put_search_end(self, run_id: str, end: SearchEnd) -> None:
        self.insert(SearchEndRow(run_id=run_id, task_id=end.task_id, record=_json(end)))

    def search_ends(self, run_id: str) -> tuple[SearchEnd, ...]:
        """In the order in which they came."""
        statement = select(SearchEndRow).where(SearchEndRow.run_id == run_id)
        return self._all(SearchEnd, statement.order_by(SearchEndRow.sequence))

    # Promotions, builds

    def put_promotion(self, run_id: str, decision: PromotionDecision) -> None:
        self.insert(
            PromotionRow(
                run_id=run_id,
                task_id=decision.task_id,
                candidate_id=decision.candidate_id,
                record=_json(decision),
            )
        )

    def promotions(self, run_id: str) -> tuple[PromotionDecision, ...]:
        """In the order in which they were decided."""
        statement = select(PromotionRow).where(PromotionRow.run_id == run_id)
        return self._all(PromotionDecision, statement.order_by(PromotionRow.sequence))

    def put_build(self, run_id: str, build: BuildRecord) -> None:
        self.insert(BuildRow(run_id=run_id, build_id=build.id, record=_json(build)))

    def build_of(self, run_id: str) -> BuildRecord | None:
        newest = select(BuildRow).where(BuildRow.run_id == run_id).order_by(BuildRow.sequence.desc())
        return self._maybe(BuildRecord, newest)

    # How rows become records

    def insert(self, row: Table, in_order_of: str | None = None) -> bool:
        """Once; for the other stores in the same database too. False: it is there already. `in_order_of`: as
        `commit_in_order` has it."""
        with Session(self._engine) as session:
            if in_order_of is not None:
                commit_in_order(session, in_order_of)
            session.add(row)
            try:
                session.flush()
            except IntegrityError as error:
                if not is_repetition(error):
                    raise
                return False
            if isinstance(row, Fact):
                standings.follow(session, row)
            session.commit()
        return True

    def _all(self, kind: type[R], statement: Select[Any]) -> tuple[R, ...]:
        with Session(self._reader) as session:
            adapter = TypeAdapter(kind)
            return tuple(adapter.validate_python(row.record) for row in session.scalars(statement))

    def _maybe(self, kind: type[R], statement: Select[Any]) -> R | None:
        found = self._all(kind, statement.limit(1))
        return found[0] if found else None

    def _one(self, kind: type[R], statement: Select[Any], what: str) -> R:
        found = self._all(kind, statement.limit(2))
        if len(found) != 1:
            problem = "is not in the ledger" if not found else "is not unique: give more of the id"
            raise LedgerError(f"{what} {problem}")
        return found[0]


def _json(record: Record) -> dict[str, Any]:
    return record.model_dump(mode="json")


def _ceilings_key(device_id: str, threads: int) -> str:
    return f"{device_id}/ceilings/{threads}"


def _device_model_key(device_id: str, model_digest: str) -> str:
    return f"{device_id}/model/{model_digest[:16]}"
