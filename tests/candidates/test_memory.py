"""Cards: made of measurements alone, of what can be compared, short, and the model's words as data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.agent import Attempt
from candidates.measurement import Baseline
from candidates.memory import MOST_NOTE_CHARACTERS, lessons
from tests.candidates.past_searches import attempt, double_task, measurement

TASK = double_task()
PARENT = attempt("void kernel() {}\n", measurement(1.0))


def child(speedup: float, **fields: object) -> Attempt:
    return attempt("void kernel() { faster(); }\n", measurement(speedup, **fields), parents=(PARENT,))


@pytest.mark.parametrize("speedup", [1.06, 1.5, 0.94, 0.5])
def test_a_clear_effect_makes_a_card(speedup: float) -> None:
    made = child(speedup)
    (card,) = lessons(TASK, (PARENT, made))
    assert card.ratio == pytest.approx(speedup)
    assert (card.before.candidate_id, card.after.candidate_id) == (
        PARENT.proposal.candidate.id,
        made.proposal.candidate.id,
    )
    assert card.changes == ("source: 1 lines added, 1 removed",)
    assert [(change.workload, change.before_us) for change in card.workloads] == [("rows=4", 10.0)]
    assert ("faster" if speedup > 1 else "slower") in card.as_text()


@pytest.mark.parametrize(
    "made",
    [
        child(1.04),
        child(0.96),
        child(1.2, width=0.3),  # the intervals overlap
        child(1.5, stage="race"),
        child(1.5, threads=2),
        child(1.5, device_id="cpu-1"),
        child(1.5, workloads=("rows=4", "rows=9")),  # the parent's screening stopped early
        child(1.5, best_baseline=Baseline.COMPILE),
        attempt("other", measurement(1.5)),  # no parent
        attempt("other", is_accepted=False, parents=(PARENT,)),
        attempt("other", None, parents=(PARENT,)),
    ],
)
def test_what_did_nothing_or_cannot_be_compared_makes_none(made: Attempt) -> None:
    assert lessons(TASK, (PARENT, made)) == ()


def test_a_parent_that_was_rejected_teaches_nothing() -> None:
    parent = attempt("parent", is_accepted=False)
    assert lessons(TASK, (parent, attempt("child", measurement(2.0), parents=(parent,)))) == ()


def test_the_fastest_parent_is_what_a_crossing_is_compared_with() -> None:
    slow, fast = attempt("slow", measurement(0.5)), attempt("fast", measurement(2.0))
    crossed = attempt("crossed", measurement(1.0), parents=(slow, fast))
    (card,) = lessons(TASK, (slow, fast, crossed))
    assert card.before.candidate_id == fast.proposal.candidate.id
    assert card.ratio == pytest.approx(0.5)


def test_says_what_changed() -> None:
    made = attempt(
        PARENT.proposal.candidate.source,
        measurement(2.0),
        parents=(PARENT,),
        launch_parameters={"tile": 8},
        build_flags=("-funroll-loops",),
        prepare="pack",
    )
    (card,) = lessons(TASK, (PARENT, made))
    assert card.changes == (
        "launch parameters: tile none -> 8",
        "build flags: none -> -funroll-loops",
        "parameters are repacked once",
    )


def test_hidden_workloads_stay_out() -> None:
    task = double_task(rows=(4,), hidden_rows=(9,))
    both = ("rows=4", "rows=9")
    parent = attempt("parent", measurement(1.0, workloads=both))
    (card,) = lessons(task, (parent, attempt("child", measurement(2.0, workloads=both), parents=(parent,))))
    assert [change.workload for change in card.workloads] == ["rows=4"]
    assert card.without(["rows=4"]).workloads == ()


@given(st.text(), st.integers(0, 40))
def test_a_card_is_short_and_a_note_stays_one_quoted_line(note: str, workloads: int) -> None:
    names = tuple(f"rows={size}" for size in range(1, workloads + 1)) or ("rows=1",)
    task = double_task(rows=tuple(range(1, 41)))
    parent = attempt("parent", measurement(1.0, workloads=names))
    many = {f"name_{number}": "x" * 50 for number in range(30)}
    made = attempt(
        "child", measurement(2.0, workloads=names), parents=(parent,), note=note * 50, launch_parameters=many
    )
    (card,) = lessons(task, (parent, made))
    lines = card.as_text().split("\n")
    assert len(lines) <= 20
    assert len(card.note) <= MOST_NOTE_CHARACTERS
    said = [line for line in lines if line.startswith("  the agent search said of it: ")]
    assert len(said) == bool(" ".join(note.split()))
    for line in said:
        assert line.endswith('"')
