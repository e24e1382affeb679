"""The llm agent over whole searches by script: what it asks, whom, in which order, and why each search ends."""

import json
import threading

import pytest
from scripted_search import (
    DOUBLES,
    TASK,
    Script,
    Store,
    budget,
    by_name,
    digest,
    llm,
    measured,
    proposal,
    rejected,
    right,
    says,
    search,
    source,
)

from candidates.agent import Attempt, Proposals, Stop
from candidates.candidate import Proposal
from candidates.spending import BudgetStop
from candidates.transcript import Transcript
from candidates.verdict import Accepted, Evidence, Reason
from compiler_agent.agents.llm.collaborators import Options
from compiler_agent.models.completion import (
    Broken,
    CutOff,
    Empty,
    Filtered,
    ModelRejectedRequest,
    ModelUnavailable,
    Refused,
)

SPENT = BudgetStop(account="run-7", limit="nano_usd", cap=5_000_000_000, used=4_999_000_000, asked=90_000_000)
FIX = {"cause": "latency bound", "evidence": "12 us", "fix": "unroll by four", "expected_effect": "2x"}


def proposals(reply: Proposals | Stop) -> tuple[Proposal, ...]:
    assert isinstance(reply, Proposals), reply
    return reply.proposals


def stop(reply: Proposals | Stop) -> Stop:
    assert isinstance(reply, Stop), reply
    return reply


def numbered(start: int = 0) -> Script:
    """Another right kernel at every call, a diagnosis where one is asked for."""

    def answer(name: str, _: object) -> str:
        if "diagnosis" in name:
            return json.dumps([FIX, FIX | {"fix": "use wider vectors"}])
        round_number, sample = (part.split("-")[-1] for part in name.split("/"))
        return says(right(start + 100 * int(round_number) + int(sample)), f"change {name}")

    return Script(answer)


def test_samples_are_in_their_order_however_late_the_first_answers() -> None:
    others = threading.Semaphore(0)

    class LateFirst(Script):
        def complete(self, call_id, request, accounts):
            if call_id.endswith("sample-0"):
                for _ in range(3):
                    assert others.acquire(timeout=10)
                return super().complete(call_id, request, accounts)
            done = super().complete(call_id, request, accounts)
            others.release()
            return done

    script = LateFirst(lambda name, _: says(right(int(name[-1])), name))
    made = proposals(llm(script).propose(TASK, (), budget()))
    assert [each.candidate.source for each in made] == [right(n) for n in range(4)]
    assert script.accounts == {("run-7", "run-7/3f2a")}


def test_a_round_asked_for_again_is_the_same_and_asks_nothing_new() -> None:
    script = numbered()
    first = proposals(llm(script).propose(TASK, (), budget()))
    attempts = tuple(measured(each, 1.5 + place / 10) for place, each in enumerate(first))
    second = llm(script).propose(TASK, attempts, budget(1))
    asked = script.asked
    # Killed while its proposals were judged: a fresh agent, with some of them among the attempts.
    killed = (*attempts, measured(proposals(second)[0], 2.0))
    assert llm(script).propose(TASK, killed, budget(1)) == second
    assert script.asked == asked


def test_proposals_say_where_they_come_from_and_what_they_cost() -> None:
    script, store = numbered(), Store()
    agent = llm(script, store=store)
    first = proposals(agent.propose(TASK, (), budget()))
    assert {(each.agent, each.model, each.cost_usd, each.parents) for each in first} == {("llm", "m0", 0.01, ())}
    attempts = tuple(measured(each, 1.1 + place / 10) for place, each in enumerate(first))
    second = proposals(agent.propose(TASK, attempts, budget(1)))
    best, next_best = attempts[3].proposal.candidate.id, attempts[2].proposal.candidate.id
    assert [each.parents for each in second] == [(best,), (next_best,), (best,)]
    assert [each.cost_usd for each in second] == pytest.approx([0.015, 0.02, 0.015])
    assert second[0].note == "change round-1/sample-0 (because: latency bound)"
    assert second[0].round_id == "run-7/3f2a/llm/round-1"
    transcript = Transcript.model_validate_json(store.blobs[second[0].transcript])
    assert [turn.call_id for turn in transcript.turns] == [
        "run-7/3f2a/llm/round-1/diagnosis-0",
        "run-7/3f2a/llm/round-1/sample-0",
    ]
    assert [turn.purpose for turn in transcript.turns] == ["diagnosis", "improve"]
    assert transcript.turns[1].request == digest(script.requests["round-1/sample-0"].model_dump_json().encode())
    assert [turn.usd for turn in transcript.turns] == [0.01, 0.01]


def test_each_branch_follows_another_fix_and_calls_share_their_prefix() -> None:
    script = numbered()
    agent = llm(script, report="loop not vectorized")
    attempts = tuple(measured(each, 1.5) for each in proposals(agent.propose(TASK, (), budget()))[:2])
    lost = rejected(proposal(source("broken"), round_id="run-7/3f2a/llm/round-0"))
    agent.propose(TASK, (*attempts, lost, lost), budget(1))
    text = {name: request.messages[0].text for name, request in script.requests.items()}
    assert "| loop not vectorized" in text["round-1/diagnosis-0"]
    assert "| reason: wrong_values" in text["round-1/sample-0"]
    assert "| fix: unroll by four" in text["round-1/sample-2"]
    assert len({request.prefix for request in script.requests.values()}) == 1
    assert script.requests["round-1/diagnosis-0"].max_output_tokens < 16_000
    assert script.requests["round-0/sample-0"].max_output_tokens == 16_000


@pytest.mark.parametrize(
    "reply", ["It is slow.", CutOff(text="[", limit="max_output_tokens"), ModelUnavailable("away"), SPENT]
)
def test_without_a_diagnosis_the_kernel_is_just_to_be_faster(reply) -> None:
    script = Script(lambda name, _: reply if "diagnosis" in name else says(right(10 + int(name[-1]))))
    attempts = (measured(proposal(right(1), round_id="run-7/3f2a/llm/round-0"), 1.5),)
    proposals(llm(script).propose(TASK, attempts, budget(1)))
    assert "find what bounds it" in script.requests["round-1/sample-0"].messages[0].text


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (CutOff(text=says(right(1)), limit="max_output_tokens"), "much shorter"),
        (Empty(), "| the answer was empty"),
        (Refused(explanation="no kernels today"), "| the model refused: no kernels today"),
        (Filtered(explanation="policy"), "| a filter held the answer back: policy"),
        (Broken(text=says(right(1)), problem="connection lost"), "| the answer broke off: connection lost"),
        ("no code at all", "| no fenced cpp block"),
        (says(right(0)), "| the kernel is one that was tried before"),
    ],
)
def test_asks_once_again_where_an_answer_holds_no_new_kernel(first, words: str) -> None:
    script, store = by_name({"round-1/sample-0": first, "round-1/again-0": says(right(2))}), Store()
    before = (rejected(proposal(right(0), round_id="run-7/3f2a/llm/round-0")),)
    (made,) = proposals(llm(script, store=store).propose(TASK, before, budget(1)))
    assert made.candidate.source == right(2)
    assert made.cost_usd == pytest.approx(0.02)
    assert words in script.requests["round-1/again-0"].messages[0].text
    turns = Transcript.model_validate_json(store.blobs[made.transcript]).turns
    assert [turn.is_second_try for turn in turns] == [False, True]


def test_a_sample_that_holds_nothing_twice_is_dropped_and_the_others_count() -> None:
    script = by_name({"round-0/sample-2": says(right(1))}, otherwise="no")
    assert len(proposals(llm(script).propose(TASK, (), budget()))) == 1
    assert len(script.asked) == 7


def test_kernels_that_differ_by_comments_alone_are_one() -> None:
    script = Script(lambda name, _: says(f"// {name}\n{right(1)}"))
    assert len(proposals(llm(script).propose(TASK, (), budget()))) == 1


def test_a_kernel_of_another_agent_is_not_proposed_again() -> None:
    seed = measured(proposal(right(1), agent="search"), 1.5)
    script = by_name({}, otherwise=says("// mine\n" + right(1)))
    ended = stop(llm(script).propose(TASK, (seed,), budget()))
    assert ended.reason == "no_progress"
    assert "tried before" in ended.message
    assert f"| {right(1).splitlines()[1]}" in script.requests["round-0/sample-0"].messages[0].text


def test_stops_where_no_answer_holds_a_kernel() -> None:
    ended = stop(llm(by_name({}, otherwise=Empty())).propose(TASK, (), budget()))
    assert ended.reason == "no_kernel"
    assert "the answer was empty" in ended.message


def test_stops_where_the_budget_stops_all_calls_and_goes_on_where_it_stops_some() -> None:
    ended = stop(llm(by_name({}, otherwise=SPENT)).propose(TASK, (), budget()))
    assert ended == Stop(reason="budget", message=str(SPENT))
    some = by_name({"round-0/sample-1": says(right(1))}, otherwise=SPENT)
    assert len(proposals(llm(some).propose(TASK, (), budget()))) == 1


def test_first_round_spreads_over_all_models_and_one_that_fails_is_replaced() -> None:
    away = by_name({}, otherwise=ModelUnavailable("529 overloaded"))
    refuses = by_name({}, otherwise=ModelRejectedRequest("401 bad key"))
    good = Script(lambda name, _: says(right(1 + int(name[-1]))))
    made = proposals(llm(away, good, refuses).propose(TASK, (), budget(models=("m0", "m1", "m2"))))
    assert [each.model for each in made] == ["m1"] * 4
    assert away.asked == ["round-0/sample-0", "round-0/sample-3"]
    assert good.asked == ["round-0/instead-0", "round-0/instead-2", "round-0/instead-3", "round-0/sample-1"]


def test_stops_where_no_model_can_be_asked_with_their_own_words() -> None:
    away = by_name({}, otherwise=ModelUnavailable("529 overloaded\nfor a minute"))
    refuses = by_name({}, otherwise=ModelRejectedRequest("401 bad key"))
    ended = stop(llm(away, refuses).propose(TASK, (), budget(models=("m0", "m1"))))
    assert ended == Stop(reason="model_unavailable", message="m0: 529 overloaded for a minute; m1: 401 bad key")


def test_a_round_without_a_name_or_accounts_is_a_mistake_of_ours() -> None:
    for missing in ({"round_id": ""}, {"accounts": ()}):
        with pytest.raises(ValueError, match="round's name and accounts"):
            llm(numbered()).propose(TASK, (), budget().model_copy(update=missing))


def test_other_faults_are_not_swallowed() -> None:
    with pytest.raises(OSError, match="disk full"):
        llm(by_name({}, otherwise=OSError("disk full"))).propose(TASK, (), budget())


# Whole searches; what the judge says of a kernel is told by its text.


def evaluate(made: Proposal) -> Attempt:
    code = made.candidate.source
    if "speedup" in code:
        return measured(made, float(code.split("speedup ")[1].split()[0]), share_of_floor=0.97 * ("floor" in code))
    reason = next((each for each in Reason if each.value in code), Reason.WRONG_VALUES)
    return rejected(made, reason, evidence=Evidence(message=f"{reason.value}: see line 2"))


def code(words: str) -> str:
    return source(f'static const char* words = "{words}"; (void)words; {DOUBLES}')


def test_good_at_first_ends_at_the_floor() -> None:
    script = Script(lambda name, _: says(code(f"speedup 2.{name[-1]} floor")))
    attempts, ended = search(llm(script), evaluate)
    assert ended.reason == "floor_reached"
    assert len(attempts) == 4
    assert max(each.speedup or 0 for each in attempts) == 2.3


def test_what_does_not_compile_is_repaired_and_then_made_faster() -> None:
    def answer(name: str, request: object) -> str:
        round_number, sample = name.split("/")
        text = request.messages[0].text
        if "diagnosis" in name:
            return json.dumps([FIX])
        if round_number == "round-0":
            return says(code(f"build_failed {sample}"))
        if "rejected the last kernel" in text:
            assert "build_failed: see line 2" in text
            return says(code(f"speedup 1.{sample[-1]} "))
        return says(code(f"speedup {1 + int(round_number[-1])}.{sample[-1]} floor"))

    script = Script(answer)
    attempts, ended = search(llm(script), evaluate)
    assert ended.reason == "floor_reached"
    assert [each.speedup for each in attempts[:8]] == [None] * 4 + [1.0, 1.1, 1.2, 1.3]
    assert [each.proposal.parents for each in attempts[4:8]] == [(each.proposal.candidate.id,) for each in attempts[:4]]


def test_wrong_then_right_ends_without_progress() -> None:
    def answer(name: str, request: object) -> str:
        round_number = name.split("/")[0]
        if "rejected the last kernel" in request.messages[0].text:
            return says(code(f"speedup 1.5 {name}"))
        return says(code(f"wrong_values {name}")) if round_number == "round-0" else says(code(f"speedup 1.4 {name}"))

    attempts, ended = search(llm(Script(answer)), evaluate)
    assert ended.reason == "no_progress"
    assert "1.500x" in ended.message
    assert any("different in kind" in each for each in _messages(answer))
    assert max(each.speedup or 0 for each in attempts) == 1.5


def _messages(answer) -> list[str]:
    script = Script(answer)
    search(llm(script), evaluate)
    return [request.messages[0].text for request in script.requests.values()]


def test_never_right_ends_after_repairs_and_something_new() -> None:
    script = Script(lambda name, _: says(code(f"wrong_values {name}")))
    attempts, ended = search(llm(script), evaluate)
    assert ended.reason == "no_progress"
    assert "none of them was accepted" in ended.message
    assert len(attempts) == 16
    assert "different in kind" in script.requests["round-3/sample-0"].messages[0].text


def test_the_same_kernel_for_ever_ends() -> None:
    attempts, ended = search(llm(by_name({}, otherwise=says(code("speedup 1.5 ")))), evaluate)
    assert ended.reason == "no_progress"
    assert len(attempts) == 1


def test_ever_faster_kernels_end_with_the_attempts() -> None:
    def answer(name: str, _: object) -> str:
        round_number, sample = name.split("/")
        return says(code(f"speedup {1.2 ** int(round_number.split('-')[1]):.4f} {sample}"))

    attempts, ended = search(llm(Script(answer)), evaluate, attempts=23)
    assert ended == Stop(reason="budget", message="0 attempts and 100000 s left")
    assert len(attempts) == 23


def test_a_search_over_budget_ends_with_the_budgets_words() -> None:
    def answer(name: str, _: object) -> str | BudgetStop:
        round_number = int(name.split("/")[0].split("-")[1])
        return SPENT if round_number > 1 else says(code(f"speedup {1.5 + round_number} {name}"))

    attempts, ended = search(llm(Script(answer)), evaluate)
    assert ended == Stop(reason="budget", message=str(SPENT))
    assert all(isinstance(each.verdict, Accepted) for each in attempts)


def test_first_kernels_are_drafted_with_past_winners_and_lessons_in_view() -> None:
    winner = measured(proposal(source("/* of another op */"), agent="llm"), 3.0)
    script = numbered()
    first = proposals(llm(script, winners=(winner,), lessons=("align loads",)).propose(TASK, (), budget()))
    text = script.requests["round-0/sample-0"].messages[0].text
    assert "a kernel that won for a similar op, 3.00x there" in text
    assert "of another op" in text
    assert "| align loads" in text
    assert {each.parents for each in first} == {()}
    tried = measured(winner.proposal.model_copy(update={"agent": "search"}), 3.0)
    again = numbered()
    llm(again, winners=(winner,)).propose(TASK, (tried,), budget())
    assert "a kernel that won" not in again.requests["round-0/sample-0"].messages[0].text


def test_options_are_followed() -> None:
    script = numbered()
    assert len(proposals(llm(script, options=Options(samples=2)).propose(TASK, (), budget()))) == 2
    request = numbered()
    llm(request, options=Options(max_output_tokens=5000, effort="low", timeout_s=50)).propose(TASK, (), budget())
    asked = request.requests["round-0/sample-0"]
    assert (asked.max_output_tokens, asked.effort, asked.timeout_s) == (5000, "low", 50)
    hurried = numbered()
    llm(hurried).propose(TASK, (), budget(seconds=100))
    assert hurried.requests["round-0/sample-0"].timeout_s == 100


def test_nothing_of_earlier_searches_is_told_where_models_are_compared() -> None:
    told: dict[bool, str] = {}
    for recalls_past in (True, False):
        script = by_name({}, otherwise=says(right(1)))
        winner = measured(proposal(right(2), agent="search"), 2.0)
        agent = llm(script, winners=(winner,), lessons=("unrolling made it faster",))
        asked = budget().model_copy(update={"recalls_past": recalls_past})
        assert isinstance(agent.propose(TASK, (), asked), Proposals)
        told[recalls_past] = script.requests["round-0/sample-0"].messages[0].text
    for words in ("unrolling made it faster", "which = 2"):
        assert words in told[True]
        assert words not in told[False]
