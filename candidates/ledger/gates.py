"""What was found of a build when the served model ran with it, by run and by build."""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from candidates.ledger.tables import BuildRow, StageRow
from candidates.promotion import EndToEnd, Gate, decide_build
from candidates.run import BUILD_FAILURE, BuildFailure, Stage


def end_to_end_of(session: Session, run_id: str) -> EndToEnd | None:
    """None: the run has not measured its build, or the model did not run with it."""
    record = session.scalar(_record(run_id, Stage.END_TO_END))
    return None if record is None else EndToEnd.model_validate(record)


def gates_of_run(session: Session, run_id: str) -> tuple[Gate, ...]:
    """What the run found of its build; empty where it measured none, or not yet."""
    if (end_to_end := end_to_end_of(session, run_id)) is not None:
        return decide_build(end_to_end)
    if (record := session.scalar(_record(run_id, BUILD_FAILURE))) is not None:
        message = BuildFailure.model_validate(record).message
        return (Gate(name="the model runs with the build", figure=message, bound="it does", passed=False),)
    return ()


def gates_of_build(session: Session, build_id: str) -> tuple[Gate, ...]:
    """Empty for a build that no run of this ledger has measured."""
    run_id = measuring_run(session, build_id)
    return () if run_id is None else gates_of_run(session, run_id)


def measuring_run(session: Session, build_id: str) -> str | None:
    """The newest that made the build and measured it: what it found is the word on the build."""
    return next((run_id for run_id in runs_of_build(session, build_id) if gates_of_run(session, run_id)), None)


def runs_of_build(session: Session, build_id: str) -> tuple[str, ...]:
    """Ids of the runs that made it, the newest first."""
    rows = select(BuildRow.run_id).where(BuildRow.build_id == build_id).order_by(BuildRow.sequence.desc())
    return tuple(session.scalars(rows))


def _record(run_id: str, stage: str) -> Select[dict[str, Any]]:
    return select(StageRow.record).where(StageRow.run_id == run_id, StageRow.stage == stage)
