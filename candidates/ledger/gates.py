"""What was found of a build when the served model ran with it, by run and by build."""

from typing import Any, NamedTuple

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from candidates.ledger.tables import BuildRow, StageRow
from candidates.promotion import EndToEnd, Gate, decide_build
from candidates.run import BUILD_FAILURE, BuildFailure, Stage


class Found(NamedTuple):
    """What one run found of its build."""

    gates: tuple[Gate, ...]
    end_to_end: EndToEnd | None
    """None: the model did not run with the build."""


def found_in_run(session: Session, run_id: str) -> Found | None:
    """None: the run has measured no build, or not yet."""
    if (record := session.scalar(_record(run_id, Stage.END_TO_END))) is not None:
        end_to_end = EndToEnd.model_validate(record)
        return Found(decide_build(end_to_end), end_to_end)
    if (record := session.scalar(_record(run_id, BUILD_FAILURE))) is not None:
        message = BuildFailure.model_validate(record).message
        return Found((Gate(name="the model runs with the build", figure=message, bound="it does", passed=False),), None)
    return None


def found_of_build(session: Session, build_id: str) -> Found | None:
    """By the newest run that made it and measured it, whose word counts; None: no run of this ledger did."""
    found = (found_in_run(session, run_id) for run_id in runs_of_build(session, build_id))
    return next((each for each in found if each is not None), None)


def runs_of_build(session: Session, build_id: str) -> tuple[str, ...]:
    """Ids of the runs that made it, the newest first."""
    rows = select(BuildRow.run_id).where(BuildRow.build_id == build_id).order_by(BuildRow.sequence.desc())
    return tuple(session.scalars(rows))


def _record(run_id: str, stage: str) -> Select[dict[str, Any]]:
    return select(StageRow.record).where(StageRow.run_id == run_id, StageRow.stage == stage)
