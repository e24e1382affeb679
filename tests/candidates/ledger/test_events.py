from datetime import UTC, datetime, timedelta

import pytest

from candidates.ledger.events import EventType, Positions, events_after, newest_positions, positions_before
from candidates.ledger.ledger import Ledger
from candidates.measurement import Interval
from candidates.serving_build.builds import ApprovalAction
from tests.candidates.ledger.told_facts import KERNEL, TASK, carry_on, move, promote, retract

START = Positions()


@pytest.fixture
def ledger(ledger_url: str) -> Ledger:
    return Ledger(ledger_url)


def test_a_kernel_is_promoted_when_its_runs_build_has_passed(ledger: Ledger) -> None:
    promote(ledger, "run-1")
    (event,) = events_after(ledger, START)
    assert event.type is EventType.KERNEL_PROMOTED
    told = event.circumstances
    assert (told.run_id, told.candidate_id, told.build_id) == ("run-1", KERNEL.id, "build-of-run-1")
    assert (told.op, told.device_id, told.speedup, told.interval) == ("Twice", TASK.device_id, 2.0, Interval(1.9, 2.1))
    assert (told.by, told.reason) == (None, None)
    assert datetime.now(UTC) - event.at < timedelta(minutes=1)


def test_no_kernel_is_promoted_that_lost_or_whose_build_did(ledger: Ledger) -> None:
    promote(ledger, "run-1", passed=False)
    promote(ledger, "run-2", speed=0.9)
    assert events_after(ledger, START) == ()


def test_a_kernel_that_a_run_only_carries_on_is_not_told_again(ledger: Ledger) -> None:
    promote(ledger, "run-1")
    carry_on(ledger, "run-2")
    assert [event.circumstances.run_id for event in events_after(ledger, START)] == ["run-1"]


def test_approvals_are_told_by_what_they_did(ledger: Ledger) -> None:
    promote(ledger, "run-1")
    move(ledger, ApprovalAction.APPROVE, "build-of-run-1", None)
    move(ledger, ApprovalAction.APPROVE, "b2", "build-of-run-1")
    move(ledger, ApprovalAction.ROLLBACK, "build-of-run-1", "b2")
    move(ledger, ApprovalAction.WITHDRAW, None, "build-of-run-1")
    told = [(event.type.value, *_moved(event.circumstances)) for event in events_after(ledger, START)][1:]
    assert told == [
        ("build.live", "run-1", "build-of-run-1", None, "ann"),
        ("build.live", None, "b2", "build-of-run-1", "ann"),
        ("build.rolled_back", "run-1", "build-of-run-1", "b2", "ann"),
        ("build.withdrawn", "run-1", None, "build-of-run-1", "ann"),
    ]


def _moved(told):
    return told.run_id, told.build_id, told.previous_build_id, told.by


def test_an_approval_that_was_recorded_twice_is_told_once(ledger: Ledger) -> None:
    """As by an activity that is tried again."""
    for _ in range(2):
        move(ledger, ApprovalAction.APPROVE, "b", None)
    move(ledger, ApprovalAction.APPROVE, "b", None, at="2026-01-02")
    first, _ = events_after(ledger, START)
    assert len(events_after(ledger, Positions(approvals=first.sequence))) == 1


def test_a_retraction_says_why_and_what_it_was_for(ledger: Ledger) -> None:
    promote(ledger, "run-1")
    retract(ledger)
    _, event = events_after(ledger, START)
    assert event.type is EventType.KERNEL_RETRACTED
    told = event.circumstances
    assert (told.candidate_id, told.reason, told.by) == (KERNEL.id, "reads past the end", "bob")
    assert (told.op, told.run_id, told.speedup) == ("Twice", "run-1", 2.0)


def test_a_kernel_that_never_won_may_be_retracted(ledger: Ledger) -> None:
    ledger.put_candidate(KERNEL)
    retract(ledger)
    (event,) = events_after(ledger, START)
    assert (event.circumstances.candidate_id, event.circumstances.op) == (KERNEL.id, None)


def test_an_event_has_one_id_whenever_it_is_read(ledger: Ledger) -> None:
    promote(ledger, "run-1")
    retract(ledger)
    events = events_after(ledger, START)
    assert events_after(ledger, START) == events
    assert len({event.id for event in events}) == 2
    assert not any("." in event.id for event in events)


def test_nothing_happened_after_the_newest_positions(ledger: Ledger) -> None:
    promote(ledger, "run-1")
    move(ledger, ApprovalAction.APPROVE, "b", None)
    retract(ledger)
    newest = newest_positions(ledger)
    assert events_after(ledger, newest) == ()
    assert newest_positions(ledger, before=datetime.now(UTC) - timedelta(hours=1)) == START
    assert newest_positions(ledger, before=datetime.now(UTC) + timedelta(hours=1)) == newest
    _, approval, _ = events_after(ledger, START)
    assert events_after(ledger, positions_before([approval], newest)) == (approval,)
