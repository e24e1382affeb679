"""What a round asks for, by what came of the rounds before; how many samples; when it is over."""

import pytest
from scripted_search import TASK, budget, measured, proposal, rejected, right

from candidates.agent import Attempt, Stop
from compiler_agent.agents.llm.collaborators import Options
from compiler_agent.agents.llm.history import History, read_history
from compiler_agent.agents.llm.plan import Draft, Improve, Order, Repair, parents_of, plan_round, purpose_of

LOST = None


def history(*rounds: list[float | None], before: tuple[Attempt, ...] = ()) -> History:
    """Speedups round by round, None for a rejected kernel; each was made from the one at its place a round before."""
    attempts = list(before)
    above: list[str] = []
    number = 0
    for round_number, speedups in enumerate(rounds):
        ids = []
        for place, speedup in enumerate(speedups):
            number += 1
            made = proposal(
                right(number),
                round_id=f"round-{round_number}",
                parents=(above[place],) if place < len(above) else (),
            )
            ids.append(made.candidate.id)
            attempts.append(rejected(made) if speedup is None else measured(made, speedup))
        above = ids
    return read_history(attempts, "round-now")


def plan(past: History, *, attempts: int = 100, options: Options | None = None) -> tuple[Order, ...]:
    planned = plan_round(TASK, past, budget(attempts=attempts), options or Options())
    assert not isinstance(planned, Stop), planned
    return planned


def stop(past: History, **left: float) -> Stop:
    planned = plan_round(TASK, past, budget(**left), Options())
    assert isinstance(planned, Stop), planned
    return planned


def purposes(orders: tuple[Order, ...]) -> list[str]:
    return [purpose_of(order) for order in orders]


def test_first_round_drafts_with_different_emphasis_from_the_seeds() -> None:
    seeds = tuple(measured(proposal(right(n), agent="search"), 1.0 + n) for n in range(4))
    orders = plan(history(before=seeds))
    assert purposes(orders) == ["draft"] * 4
    assert len({order.emphasis for order in orders if isinstance(order, Draft)}) == 4
    best = tuple(seed.proposal.candidate.id for seed in (seeds[3], seeds[2]))
    assert {parents_of(order) for order in orders} == {best}


def test_what_was_rejected_is_repaired_twice_and_then_given_up() -> None:
    assert purposes(plan(history([LOST] * 4))) == ["repair"] * 4
    second = plan(history([LOST] * 4, [LOST] * 4))
    assert purposes(second) == ["repair"] * 4
    assert isinstance(second[0], Repair)
    assert purposes(plan(history([LOST] * 4, [LOST] * 4, [LOST] * 4))) == ["novelty"] * 4


def test_beam_improves_the_two_fastest_in_two_ways_each() -> None:
    orders = plan(history([1.5, 1.2, LOST, LOST]))
    assert purposes(orders) == ["repair", "repair", "improve", "improve"]
    orders = plan(history([1.5, 1.1, LOST, LOST], [1.6, 1.2, LOST], [1.7, LOST, 1.4, 1.3]))
    assert purposes(orders) == ["repair", "improve", "improve"]
    orders = plan(history([1.5, 1.2]), options=Options(samples=5))
    branches = [(each.parent.speedup, each.branch) for each in orders if isinstance(each, Improve)]
    assert branches == [(1.5, 0), (1.2, 0), (1.5, 1), (1.2, 1)]


def test_beam_holds_the_best_own_kernel_where_another_agent_leads() -> None:
    seeds = tuple(measured(proposal(right(100 + n), agent="search"), 3.0 + n / 10) for n in range(3))
    orders = plan(history([1.5, 1.2], before=seeds))
    parents = [each.parent.speedup for each in orders if isinstance(each, Improve)]
    assert parents[:2] == [3.2, 1.5]
    behind = tuple(measured(proposal(right(200 + n), agent="search"), 1.1) for n in range(3))
    orders = plan(history([1.5, 1.2], before=behind))
    parents = [each.parent.speedup for each in orders if isinstance(each, Improve)]
    assert parents[:2] == [1.5, 1.2]


def test_a_flat_round_is_followed_by_a_search_for_something_new() -> None:
    assert purposes(plan(history([1.5, 1.4], [1.506, 1.2]))) == ["novelty"] * 3
    assert purposes(plan(history([1.5, 1.4], [1.5, 1.2], [1.4, 1.3]))) == ["improve"] * 3
    assert purposes(plan(history([1.5, 1.4], [1.6, 1.2]))) == ["improve"] * 3
    assert {parents_of(order) for order in plan(history([1.5, 1.4], [1.5, 1.2]))} == {()}


@pytest.mark.parametrize(
    ("attempts", "last", "samples"),
    [(100, [LOST] * 4, 4), (12, [LOST] * 4, 4), (11, [LOST] * 4, 3), (5, [LOST] * 4, 1), (1, [LOST] * 4, 1),
     (100, [1.1, 1.2, 1.3, LOST], 3), (100, [1.1, 1.2, LOST, LOST], 4)],
)  # fmt: skip
def test_samples_leave_three_rounds_of_feedback(attempts: int, last: list[float | None], samples: int) -> None:
    assert len(plan(history(last), attempts=attempts)) == samples


def test_stops_after_three_flat_rounds_with_one_for_something_new() -> None:
    flat = [[2.0, 1.0], [2.0], [1.9], [2.01]]
    assert stop(history(*flat)).reason == "no_progress"
    assert "2.010x" in stop(history(*flat)).message
    assert purposes(plan(history(*flat[:3]))) == ["improve"] * 3
    assert stop(history([LOST], [LOST], [LOST], [LOST])).reason == "no_progress"
    assert "none of them was accepted" in stop(history([LOST], [LOST], [LOST], [LOST])).message


def test_stops_at_the_floor_whoever_reached_it() -> None:
    seed = measured(proposal(right(1), agent="search"), 2.0, share_of_floor=0.96)
    assert stop(history(before=(seed,))).reason == "floor_reached"


def test_stops_when_time_or_attempts_are_spent_and_without_a_model() -> None:
    assert stop(history(), attempts=0).reason == "budget"
    assert stop(history(), seconds=0).reason == "budget"
    assert stop(history(), models=()).reason == "model_unavailable"


def test_what_the_round_itself_proposed_before_a_kill_is_not_its_past() -> None:
    made = measured(proposal(right(1), round_id="round-now"), 1.5)
    assert read_history([made], "round-now").rounds == ()
    assert len(read_history([made], "round-later").rounds) == 1
