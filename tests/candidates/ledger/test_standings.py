"""Standings: each fact moves the line of its candidate; lines that grew with the facts are those of a rebuild."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from candidates.hot_ops import HotOp, HotWorkload
from candidates.ledger import standings
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.find_standings import find_facets, find_standings, standings_of
from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.ledger.standing_rows import StandingRow
from candidates.ledger.tables import AttemptRow, MeasurementRow
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.run import (
    BUILD_FAILURE,
    LIVE_CHECKS,
    BuildFailure,
    BuildRecord,
    LiveCheck,
    LiveChecks,
    Ranking,
    SearchEnd,
    Stage,
)
from candidates.standing import WINS, Filters, InService, KernelPlace, Sort, State
from tests.candidates.past_searches import REJECTED, REQUEST, attempt, double_task, measurement
from tests.candidates.test_promotion import FIGURES

TASK, WIDER = double_task(), double_task(width=512)
KERNEL = attempt("kernel", measurement(2.0))
KERNEL_ID = KERNEL.proposal.candidate.id
NOBODY = InService()
WRONG = LiveCheck(candidate_id=KERNEL_ID, op=TASK.op, task_id=TASK.id, outcome="wrong", reason="wrong_values")
EVERY = Filters(states=tuple(State))


@pytest.fixture
def ledger(ledger_url):
    ledger = Ledger(ledger_url)
    for run_id in ("run-1", "run-2"):
        ledger.open_run(REQUEST.model_copy(update={"trace_digest": run_id}), run_id)
    ledger.put_task(TASK)
    ledger.put_task(WIDER)
    return ledger


def tried(ledger, each=KERNEL, task=TASK, run_id="run-1"):
    ledger.put_candidate(each.proposal.candidate)
    ledger.put_attempt(run_id, task.id, each)


def promoted(ledger, *, passed=True, run_id="run-1"):
    gate = Gate(name="confirmed win", figure=2.0, bound="> 1.03", passed=passed)
    decision = PromotionDecision(task_id=TASK.id, candidate_id=KERNEL_ID, gates=(gate,))
    ledger.put_promotion(run_id, decision)


def ended(ledger, decision, *, run_id="run-1", reason="race at 0.90x"):
    end = SearchEnd(task_id=TASK.id, op=TASK.op, decision=decision, candidate_id=KERNEL_ID, reason=reason, tried=1)
    ledger.put_search_end(run_id, end)


def built(ledger, *, run_id="run-1", task_ids=(TASK.id,)):
    ledger.put_build(run_id, BuildRecord(id="b" * 64, path="/b", task_ids=task_ids))


def gated(ledger, *, run_id="run-1", **changes):
    ledger.put_stage(run_id, Stage.END_TO_END, FIGURES.model_copy(update=changes))


def standing(ledger, serving=NOBODY):
    (found,) = (each for each in standings_of(ledger, [KERNEL_ID], serving) if each.task_id == TASK.id)
    return found


def state(ledger):
    found = standing(ledger)
    return found.state, found.reason


def lines(ledger):
    columns = [column for column in StandingRow.__table__.columns if column.name != "number"]
    with Session(ledger.engine) as session:
        return sorted(tuple(row) for row in session.execute(select(*columns)))


def test_a_kernel_goes_from_screened_over_won_to_shipped(ledger):
    tried(ledger)
    assert state(ledger) == (State.SCREENED, "others of its search were faster")
    ledger.put_measurement("run-1", TASK.id, KERNEL_ID, measurement(1.8, stage="confirm"))
    promoted(ledger)
    ended(ledger, "won")
    assert state(ledger) == (State.WON, "its run has made no build")
    built(ledger)
    assert state(ledger) == (State.WON, "its build was not measured yet")
    gated(ledger)
    shipped = standing(ledger)
    assert (shipped.state, shipped.reason, shipped.end_to_end) == (State.SHIPPED, "", FIGURES.speedup)
    assert (shipped.speedup, shipped.stage, shipped.pairs) == (1.8, "confirm", 5)
    assert (shipped.served_model, shipped.run_id, shipped.language) == ("m", "run-1", "cpp")


def test_a_build_that_fails_a_gate_ships_nothing(ledger):
    tried(ledger)
    promoted(ledger)
    built(ledger)
    gated(ledger, speedup_interval=(0.9, 1.2))
    assert state(ledger) == (State.WON, "its build did not pass: faster end to end")


def test_a_build_that_does_not_run_ships_nothing(ledger):
    tried(ledger)
    promoted(ledger)
    built(ledger)
    ledger.put_stage("run-1", BUILD_FAILURE, BuildFailure(message="segmentation fault"))
    assert state(ledger) == (State.WON, "its build did not pass: the model runs with the build")


def test_of_a_build_that_two_runs_measured_the_newer_word_counts(ledger):
    tried(ledger)
    for run_id in ("run-1", "run-2"):
        promoted(ledger, run_id=run_id)
        built(ledger, run_id=run_id)
    gated(ledger)
    assert standing(ledger).state is State.SHIPPED
    gated(ledger, run_id="run-2", speedup_interval=(0.9, 1.2))
    assert state(ledger) == (State.WON, "its build did not pass: faster end to end")


def test_a_kernel_that_is_carried_on_night_after_night_stays_shipped(ledger):
    tried(ledger)
    promoted(ledger)
    built(ledger)
    gated(ledger)
    for night in range(9):
        ledger.open_run(REQUEST.model_copy(update={"trace_digest": f"{night}"}), f"night-{night}")
        promoted(ledger, run_id=f"night-{night}")
    assert standing(ledger).state is State.SHIPPED


def test_a_kernel_that_others_of_its_build_replace_is_won_alone(ledger):
    tried(ledger)
    promoted(ledger)
    built(ledger, task_ids=(WIDER.id,))
    gated(ledger)
    assert state(ledger) == (State.WON, "left out of its run's build: other kernels there save more")


@pytest.mark.parametrize(
    ("decision", "expected"),
    [("lost", State.LOST), ("undecided", State.UNDECIDED), ("rejected", State.REJECTED)],
)
def test_a_search_that_ended_otherwise_says_how(ledger, decision, expected):
    tried(ledger)
    ended(ledger, decision)
    assert state(ledger) == (expected, "race at 0.90x")


def test_a_gate_of_its_own_that_failed_leaves_it_undecided(ledger):
    tried(ledger)
    promoted(ledger, passed=False)
    ended(ledger, "undecided")
    assert state(ledger) == (State.UNDECIDED, "not passed: confirmed win")


def test_a_rejection_says_its_reason(ledger):
    rejected = attempt("kernel", is_accepted=False)
    tried(ledger, rejected)
    assert state(ledger) == (State.REJECTED, "crashed: no")


def test_what_was_taken_back_is_retracted_at_every_task_and_in_tasks_to_come(ledger):
    tried(ledger)
    promoted(ledger)
    Retractions(ledger).put(Retraction(candidate_id=KERNEL_ID, reason="reads past the end", by="ann"))
    tried(ledger, task=WIDER)
    assert [(each.task_id, each.state) for each in standings_of(ledger, [KERNEL_ID], NOBODY)] == [
        (WIDER.id, State.RETRACTED),
        (TASK.id, State.RETRACTED),
    ]
    built(ledger)
    gated(ledger)
    assert state(ledger) == (State.RETRACTED, "retracted: reads past the end")


def test_what_a_run_finds_wrong_in_the_live_build_is_retracted(ledger):
    tried(ledger)
    promoted(ledger)
    check = LiveCheck(candidate_id=KERNEL_ID, op=TASK.op, task_id=TASK.id, outcome="wrong", reason="wrong_values")
    ledger.put_stage("run-2", LIVE_CHECKS, LiveChecks(build_id="b", kernels=(check,)))
    assert state(ledger) == (State.RETRACTED, "wrong_values")


def test_a_person_s_word_on_a_flaw_goes_before_a_run_s_whichever_came_first(ledger):
    tried(ledger)
    ledger.put_stage("run-2", LIVE_CHECKS, LiveChecks(build_id="b", kernels=(WRONG,)))
    Retractions(ledger).put(Retraction(candidate_id=KERNEL_ID, reason="reads past the end", by="ann"))
    assert state(ledger) == (State.RETRACTED, "retracted: reads past the end")
    assert Flaws(ledger).of(KERNEL_ID) == "retracted: reads past the end"


def test_a_kernel_is_found_wrong_before_anybody_tried_it_here(ledger):
    ledger.put_stage("run-2", LIVE_CHECKS, LiveChecks(build_id="b", kernels=(WRONG,)))
    tried(ledger)
    assert state(ledger) == (State.RETRACTED, "wrong_values")


def test_two_runs_that_rank_one_task_keep_their_rankings(ledger):
    rank(ledger, "run-1", 0.25, {"chat": 0.1})
    tried(ledger)
    rank(ledger, "run-2", 0.5, {"chat": 0.2})
    assert standing(ledger).share_of_time == 0.5
    assert all(ledger.stage(run_id, Stage.RANKING, Ranking) is not None for run_id in ("run-1", "run-2"))


def test_a_person_s_measurement_counts_without_a_run(ledger):
    ledger.put_candidate(KERNEL.proposal.candidate)
    Evaluations(ledger).put(TASK.id, KERNEL)
    found = standing(ledger)
    assert (found.run_id, found.served_model, found.speedup) == (None, None, 2.0)


def test_what_a_person_measures_again_stays_with_the_model_it_was_found_in(ledger):
    tried(ledger)
    Evaluations(ledger).put(TASK.id, attempt("kernel", measurement(1.5)))
    found = standing(ledger)
    assert (found.run_id, found.served_model, found.speedup) == ("run-1", "m", 1.5)


def test_share_of_time_is_that_of_the_last_ranking_and_of_a_class_when_asked(ledger):
    tried(ledger)
    rank(ledger, "run-1", 0.25, {"chat": 0.1, "coding": 0.4})
    assert standing(ledger).share_of_time == 0.25
    in_class = find_standings(ledger, Filters(states=tuple(State), workload_class="coding"), serving=NOBODY)
    assert [each.share_of_time for each in in_class.standings] == [0.4]
    assert find_facets(ledger).workload_classes == ("chat", "coding")
    assert not find_standings(ledger, Filters(states=tuple(State), workload_class="other"), serving=NOBODY).standings


def rank(ledger, run_id, share, by_class):
    hot_op = HotOp(
        op=TASK.op, site=TASK.site, level=TASK.level, task_id=TASK.id, share_of_time=share, share_by_class=by_class,
        time_us=10.0, floor_us=1.0, recoverable_share=0.2,
        workloads=(HotWorkload(shape="rows=4", dtype="float32", calls_per_hour=1.0, time_us=10.0, floor_us=1.0),),
    )  # fmt: skip
    ranking = Ranking(
        coverage=1.0, threads=1, eager_decode_us_by_threads={}, hot_ops=(hot_op,), sites={}, rank_correlation={},
        unmatched={},
    )  # fmt: skip
    ledger.put_stage(run_id, Stage.RANKING, ranking)


def test_live_and_shadow_come_from_the_build_that_serves(ledger):
    tried(ledger)
    promoted(ledger)
    built(ledger)
    gated(ledger)
    place = KernelPlace(task_id=TASK.id, candidate_id=KERNEL_ID)
    live = InService(live=frozenset({place}))
    shadow = InService(live=frozenset({place}), shadow=frozenset({place}))
    assert standing(ledger, live).state is State.LIVE
    assert standing(ledger, shadow).state is State.SHADOW
    for serving, expected in ((NOBODY, State.SHIPPED), (live, State.LIVE), (shadow, State.SHADOW)):
        for asked in State:
            found = find_standings(ledger, Filters(states=(asked,)), serving=serving).standings
            assert [each.state for each in found] == ([expected] if asked is expected else [])
        assert [each.state for each in find_standings(ledger, Filters(), serving=serving).standings] == [expected]


def test_what_was_found_of_a_live_kernel_since_it_won_is_said(ledger):
    tried(ledger)
    promoted(ledger)
    built(ledger)
    gated(ledger)
    live = InService(live=frozenset({KernelPlace(task_id=TASK.id, candidate_id=KERNEL_ID)}))
    assert standing(ledger, live).reason == ""
    rejected = KERNEL.model_copy(update={"verdict": REJECTED, "measurement": None})
    Evaluations(ledger).put(TASK.id, rejected)
    found = standing(ledger, live)
    assert (found.state, found.reason) == (State.LIVE, "rejected since it won: crashed: no")


def test_a_retraction_is_news_however_long_ago_the_kernel_won(ledger):
    for number in range(3):
        tried(ledger, attempt(f"kernel {number}", measurement(1.5)))
    tried(ledger)
    promoted(ledger)
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    with ledger.engine.begin() as connection:
        for kind in (AttemptRow, MeasurementRow):
            connection.execute(update(kind).where(kind.candidate_id == KERNEL_ID).values(recorded_at=long_ago))
    with Session(ledger.engine) as session, session.begin():
        standings.rebuild(session)
    assert standing(ledger).updated_at == long_ago
    Retractions(ledger).put(Retraction(candidate_id=KERNEL_ID, reason="wrong", by="ann"))
    told = standing(ledger)
    assert told.updated_at > long_ago
    with Session(ledger.engine) as session, session.begin():
        standings.rebuild(session)
    assert standing(ledger) == told


def test_a_kernel_found_wrong_is_retracted_though_it_serves(ledger):
    tried(ledger)
    Retractions(ledger).put(Retraction(candidate_id=KERNEL_ID, reason="wrong", by="ann"))
    serving = InService(live=frozenset({KernelPlace(task_id=TASK.id, candidate_id=KERNEL_ID)}))
    assert standing(ledger, serving).state is State.RETRACTED
    assert len(find_standings(ledger, Filters(states=WINS), serving=serving).standings) == 1


@pytest.mark.parametrize("sort", list(Sort))
def test_pages_give_every_standing_once_in_order(ledger, sort):
    for number in range(23):
        speedup = 1.0 + number % 5
        tried(ledger, attempt(f"kernel {number}", measurement(speedup), is_accepted=bool(number % 3)))
    seen, after = [], None
    for _ in range(10):
        page = find_standings(ledger, EVERY, sort, serving=NOBODY, limit=4, after=after)
        seen += page.standings
        if (after := page.next) is None:
            break
    assert len(seen) == 23 == len({each.candidate_id for each in seen})
    if sort is Sort.SPEEDUP:
        speedups = [each.speedup or 0.0 for each in seen]
        assert speedups == sorted(speedups, reverse=True)


def test_filters_leave_only_what_they_name(ledger):
    tried(ledger)
    tried(ledger, attempt("by a model", measurement(1.5), agent="llm"), task=WIDER)
    for filters, sources in (
        ({"agent": "llm"}, 1), ({"agent": "nobody"}, 0), ({"op": "Double"}, 2), ({"device_id": "cpu-0"}, 2),
        ({"task_id": TASK.id}, 1), ({"run_id": "run-1"}, 2), ({"language": "triton"}, 0), ({"served_model": "m"}, 2),
    ):  # fmt: skip
        asked = Filters(states=tuple(State), **filters)
        assert len(find_standings(ledger, asked, serving=NOBODY).standings) == sources, filters


def test_a_text_with_a_nul_has_a_standing(ledger):
    hostile = attempt("kernel", measurement(2.0), agent="a\0gent")
    tried(ledger, hostile)
    ended(ledger, "lost", reason="\0" * 600)
    found = standing(ledger)
    assert (found.agent, len(found.reason)) == ("a\N{REPLACEMENT CHARACTER}gent", 500)


STEPS = {
    "tried": tried,
    "tried again": lambda ledger: tried(ledger, attempt("kernel", measurement(1.2)), run_id="run-2"),
    "rejected later": lambda ledger: tried(ledger, attempt("kernel", is_accepted=False), run_id="run-2"),
    "by hand": lambda ledger: Evaluations(ledger).put(TASK.id, KERNEL),
    "raced": lambda ledger: ledger.put_measurement("run-1", TASK.id, KERNEL_ID, measurement(1.7, stage="race")),
    "confirmed": lambda ledger: ledger.put_measurement("run-1", TASK.id, KERNEL_ID, measurement(1.6, stage="confirm")),
    "promoted": promoted,
    "not promoted": lambda ledger: promoted(ledger, passed=False, run_id="run-2"),
    "won": lambda ledger: ended(ledger, "won"),
    "lost later": lambda ledger: ended(ledger, "lost", run_id="run-2"),
    "built": built,
    "gated": gated,
    "failed": lambda ledger: ledger.put_stage("run-2", BUILD_FAILURE, BuildFailure(message="no")),
    "found wrong": lambda ledger: ledger.put_stage("run-2", LIVE_CHECKS, LiveChecks(build_id="b", kernels=(WRONG,))),
    "found wrong again": lambda ledger: ledger.put_stage(
        "run-1", LIVE_CHECKS, LiveChecks(build_id="b", kernels=(WRONG.model_copy(update={"reason": "crashed"}),))
    ),
    "ranked": lambda ledger: rank(ledger, "run-1", 0.25, {"chat": 0.1}),
    "retracted": lambda ledger: Retractions(ledger).put(Retraction(candidate_id=KERNEL_ID, reason="wrong", by="ann")),
}


@settings(deadline=None, max_examples=60)
@given(names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=10))
def test_in_whatever_order_facts_come_a_rebuild_changes_nothing(names):
    ledger = Ledger("sqlite://")
    for run_id in ("run-1", "run-2"):
        ledger.open_run(REQUEST.model_copy(update={"trace_digest": run_id}), run_id)
    ledger.put_task(TASK)
    ledger.put_candidate(KERNEL.proposal.candidate)
    for name in names:
        STEPS[name](ledger)
    grown = lines(ledger)
    with Session(ledger.engine) as session, session.begin():
        standings.rebuild(session)
    assert lines(ledger) == grown
