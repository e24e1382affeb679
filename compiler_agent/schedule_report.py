"""Schedules and their nights as commands print them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.table import Table

from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import Failed, RunStates
from candidates.nightly import Night, NightlySchedule, NightRan
from candidates.printable import printable
from candidates.run import RunReport
from compiler_agent.outcome import print_json, result_console
from compiler_agent.schedules import KnownSchedule


def print_schedules(found: Sequence[KnownSchedule], *, json: bool) -> None:
    if json:
        print_json({"schedules": [_document(known) for known in found]})
        return
    table = Table("name", "when", "model", "source", "device", "next", "state", box=None, header_style="bold")
    for known in found:
        schedule = known.schedule
        words = (schedule.name, _when(schedule), schedule.template.model, schedule.source, schedule.device)
        next_at = known.next_at[0].isoformat(" ", "minutes") if known.next_at else "never"
        table.add_row(*(escape(printable(word)) for word in (*words, next_at, _state(known))))
    result_console.print(table)


def print_schedule(known: KnownSchedule, nights: Sequence[Night], ledger: Ledger, *, json: bool) -> None:
    """With its nights, the newest first."""
    if json:
        print_json(_document(known) | {"nights": [_night(night, ledger) for night in nights]})
        return
    schedule = known.schedule
    for line in (
        f"{schedule.name} ({schedule.id}): {_state(known)}, {_when(schedule)}",
        f"  {schedule.template.model} on {schedule.device}, traffic of {schedule.source}",
        f"  next: {', '.join(_moment(moment) for moment in known.next_at[:3]) or 'never'}",
        f"  left out while another went on: {known.left_out}; missed: {known.missed}",
        *(
            f"  {night['began_at']} {night['night_id']}: {night['outcome']}, {night['requests']} new requests"
            + (f", {night['reason']}" if night["reason"] else "")
            for night in (_night(night, ledger) for night in nights)
        ),
    ):
        result_console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def _document(known: KnownSchedule) -> dict[str, Any]:
    schedule = known.schedule
    return schedule.model_dump(mode="json", exclude={"template"}) | {
        "id": schedule.id,
        "model": schedule.template.model,
        "device": schedule.device,
        "request": schedule.template.model_dump(mode="json", exclude={"traces", "trace_digest"}),
        "is_paused": known.is_paused,
        "note": known.note,
        "going_on": known.going_on,
        "next_at": [_moment(moment) for moment in known.next_at],
        "left_out": known.left_out,
        "missed": known.missed,
    }


def _night(night: Night, ledger: Ledger) -> dict[str, Any]:
    """`outcome`: `skipped`, `failed`, `shipped`, `nothing_shipped`, or `not_ended` yet."""
    outcome, reason = _run_of(night, ledger)
    return {
        "night_id": night.id,
        "began_at": _moment(night.began_at),
        "outcome": outcome,
        "reason": reason,
        "requests": night.traffic.requests,
        "traffic": night.traffic.model_dump(mode="json"),
    }


def _run_of(night: Night, ledger: Ledger) -> tuple[str, str]:
    """The night's outcome and its reason."""
    if not isinstance(night.outcome, NightRan):
        return night.outcome.kind, night.outcome.reason
    run = ledger.run(night.id)
    if run is not None and isinstance(run.report, RunReport):
        return ("shipped" if run.report.shipped else "nothing_shipped"), ""
    state = None if run is None else RunStates(ledger).of([run])[run.run_id]
    return ("failed", state.message) if isinstance(state, Failed) else ("not_ended", "")


def _state(known: KnownSchedule) -> str:
    if known.going_on is not None:
        return "a night goes on"
    return "paused" + (f" ({known.note})" if known.note else "") if known.is_paused else "waits"


def _when(schedule: NightlySchedule) -> str:
    return f"{schedule.cron} {schedule.time_zone}"


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
