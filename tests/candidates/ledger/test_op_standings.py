"""What the ledger knows of one op: bounded, along indexes, and of the place that was asked for alone."""

from dataclasses import dataclass

import pytest
from sqlalchemy import event, insert

from candidates.ledger.evaluations import Evaluations
from candidates.ledger.find_standings import standings_of
from candidates.ledger.ledger import Ledger
from candidates.ledger.op_standings import (
    OpPlace,
    ancestors_of,
    best_win_of,
    devices_of,
    fastest_of,
    latest_measurement,
    latest_task_id,
    latest_wins_of,
    places_of,
)
from candidates.ledger.retractions import Retractions
from candidates.ledger.standing_rows import StandingRow
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.run import RunRequest
from candidates.standing import InService, KernelPlace, State
from tests.candidates.past_searches import REQUEST, attempt, double_task, measurement

TASK = double_task()
PLACE = OpPlace("cpu-0", "model.layers.*.double", "m")
NOBODY = InService()


@dataclass
class Past:
    """Facts of past searches, put into a ledger."""

    ledger: Ledger

    def __post_init__(self):
        self.ledger.open_run(REQUEST, "run-1")

    def keep(self, source, speedup=2.0, task=TASK, **proposal):
        kernel = attempt(source, measurement(speedup), **proposal)
        self.ledger.put_task(task)
        self.ledger.put_candidate(kernel.proposal.candidate)
        self.ledger.put_attempt("run-1", task.id, kernel)
        return kernel

    def promote(self, source, speedup=2.0, task=TASK):
        candidate_id = self.keep(source, speedup, task).proposal.candidate.id
        gate = Gate(name="confirmed", figure=2.0, bound="> 1.03", passed=True)
        self.ledger.put_promotion("run-1", PromotionDecision(task_id=task.id, candidate_id=candidate_id, gates=(gate,)))
        return candidate_id

    def retract(self, candidate_id):
        Retractions(self.ledger).put(Retraction(candidate_id=candidate_id, reason="races", by="ann"))


@pytest.fixture
def past(ledger_url):
    return Past(Ledger(ledger_url))


def test_devices_tell_how_kernels_ended_there(past):
    past.promote("won")
    past.keep("slow", 1.1)
    past.keep("wrong", is_accepted=False)
    past.keep("elsewhere", task=double_task(device_id="cpu-1"))
    told = {each.device_id: each.counts for each in devices_of(past.ledger, "Double", NOBODY)}
    assert told == {
        "cpu-0": {State.WON: 1, State.REJECTED: 1, State.SCREENED: 1},
        "cpu-1": {State.SCREENED: 1},
    }
    assert devices_of(past.ledger, "Triple", NOBODY) == ()


def test_kernels_that_serve_are_counted_as_such(past):
    candidate_id = past.promote("won")
    past.promote("another")
    serving = InService(live=frozenset({KernelPlace(task_id=TASK.id, candidate_id=candidate_id)}))
    (told,) = devices_of(past.ledger, "Double", serving)
    assert told.counts == {State.LIVE: 1, State.WON: 1}


def test_places_are_the_sites_and_models_of_a_device(past):
    past.keep("here")
    elsewhere = TASK.model_copy(update={"site": "lm_head"})
    past.keep("there", task=elsewhere)
    past.ledger.open_run(RunRequest(traces=("/t",), trace_digest="1", model="other"), "run-2")
    kernel = attempt("for another model", measurement(2.0))
    past.ledger.put_candidate(kernel.proposal.candidate)
    past.ledger.put_attempt("run-2", TASK.id, kernel)
    assert set(places_of(past.ledger, "Double", "cpu-0")) == {
        PLACE,
        OpPlace("cpu-0", "lm_head", "m"),
        OpPlace("cpu-0", "model.layers.*.double", "other"),
    }
    assert [each.op for each in fastest_of(past.ledger, "Double", OpPlace("cpu-0", "lm_head", "m"), NOBODY, 9)] == [
        "Double"
    ]


def test_a_kernel_of_no_model_has_a_place_of_its_own(past):
    by_hand = attempt("by hand", measurement(2.0))
    past.ledger.put_task(TASK)
    past.ledger.put_candidate(by_hand.proposal.candidate)
    Evaluations(past.ledger).put(TASK.id, by_hand)
    (place,) = places_of(past.ledger, "Double", "cpu-0")
    assert place.served_model is None
    assert len(fastest_of(past.ledger, "Double", place, NOBODY, 9)) == 1


def test_the_best_win_is_the_fastest_that_stands(past):
    past.keep("screened faster", 9.0)
    wrong, best = past.promote("found wrong", 5.0), past.promote("best", 3.0)
    past.promote("slower", 2.0)
    past.retract(wrong)
    found = best_win_of(past.ledger, "Double", PLACE, NOBODY)
    assert found is not None
    assert found.candidate_id == best
    states = {win.candidate_id: win.state for win in latest_wins_of(past.ledger, "Double", PLACE, 9)}
    assert states[wrong] is State.RETRACTED
    assert len(states) == 3


def test_ancestors_end_at_circles_and_at_parents_that_nobody_tried(past):
    first = past.keep("first")
    second = past.keep("second", parents=(first, attempt("never tried")))
    third = past.keep("third", parents=(second,))
    with past.ledger.engine.begin() as connection:
        connection.execute(
            StandingRow.__table__.update()
            .where(StandingRow.candidate_id == first.proposal.candidate.id)
            .values(parents=[third.proposal.candidate.id])
        )
    (standing,) = standings_of(past.ledger, [third.proposal.candidate.id], NOBODY)
    found = ancestors_of(past.ledger, standing, NOBODY, 9)
    assert [each.candidate_id for each in found] == [second.proposal.candidate.id, first.proposal.candidate.id]
    assert len(ancestors_of(past.ledger, standing, NOBODY, 1)) == 1


def test_the_latest_measurement_is_that_of_the_standing(past):
    kernel = past.keep("kernel", 2.0)
    candidate_id = kernel.proposal.candidate.id

    def told():
        measured = latest_measurement(past.ledger, TASK.id, candidate_id)
        (standing,) = standings_of(past.ledger, [candidate_id], NOBODY)
        assert measured is not None
        assert standing.speedup == measured.traffic_weighted_speedup
        return standing.speedup

    assert told() == 2.0
    past.ledger.put_measurement("run-1", TASK.id, candidate_id, measurement(1.5, stage="race"))
    assert told() == 1.5
    Evaluations(past.ledger).put(TASK.id, kernel.model_copy(update={"measurement": measurement(1.25)}))
    assert told() == 1.25
    Evaluations(past.ledger).put(TASK.id, kernel.model_copy(update={"measurement": None}))
    assert told() == 1.25


def test_a_nul_in_a_source_hides_no_measurement(ledger_url):
    past = Past(Ledger(ledger_url))
    kernel = past.keep("a \0 in a comment", 2.0)
    Evaluations(past.ledger).put(TASK.id, kernel.model_copy(update={"measurement": None}))
    measured = latest_measurement(past.ledger, TASK.id, kernel.proposal.candidate.id)
    assert measured is not None
    assert measured.traffic_weighted_speedup == 2.0


def test_of_an_op_without_any_measurement_a_kernel_says_its_task(past):
    past.keep("kernel", is_accepted=False)
    assert latest_task_id(past.ledger, "Double", PLACE) == TASK.id


def test_no_query_reads_a_whole_table(tmp_path):
    """SQLite's own plans; thousands of lines, as it chooses by their number."""
    past = Past(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    candidate_id = past.promote("won", 3.0)
    (standing,) = standings_of(past.ledger, [candidate_id], NOBODY)
    with past.ledger.engine.begin() as connection:
        row = connection.execute(StandingRow.__table__.select()).mappings().one()
        copies = [{**row, "number": n, "candidate_id": f"{n:064x}", "op": f"op{n % 9}"} for n in range(10, 3000)]
        connection.execute(insert(StandingRow), copies)
    asked = []

    @event.listens_for(past.ledger.engine, "before_cursor_execute")
    def listen(connection, cursor, statement, parameters, context, is_many):
        asked.append((statement, parameters))

    serving = InService(live=frozenset({KernelPlace(task_id=TASK.id, candidate_id=candidate_id)}))
    devices_of(past.ledger, "op1", serving)
    place = places_of(past.ledger, "op1", "cpu-0")[0]
    fastest_of(past.ledger, "op1", place, serving, 60)
    best_win_of(past.ledger, "op1", place, serving)
    latest_wins_of(past.ledger, "op1", place, 60)
    latest_task_id(past.ledger, "op1", place)
    ancestors_of(past.ledger, standing.model_copy(update={"parents": ("a", "b")}), serving, 60)
    latest_measurement(past.ledger, TASK.id, candidate_id)
    past.ledger.task(TASK.id)
    event.remove(past.ledger.engine, "before_cursor_execute", listen)
    with past.ledger.engine.connect() as connection:
        for statement, parameters in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            tables = ("standings", "measurements", "attempts", "evaluations", "tasks")
            scans = [step[3] for step in plan if any(step[3].startswith(f"SCAN {table}") for table in tables)]
            assert not scans, (statement, scans)
    assert len(asked) > 9
