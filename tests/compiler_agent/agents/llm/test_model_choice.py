"""Which model is asked: all at first, then those whose kernels gained most for their price, and again the others."""

from scripted_search import measured, proposal, rejected, right

from compiler_agent.agents.llm.history import History, read_history
from compiler_agent.agents.llm.model_choice import choose_models, gains_per_usd


def history(*attempts: tuple[str, float | None, float]) -> History:
    """(model, speedup, dollars), one round."""
    made = []
    for number, (model, speedup, usd) in enumerate(attempts):
        proposed = proposal(right(number), model=model, cost_usd=usd, round_id="round-0")
        made.append(rejected(proposed) if speedup is None else measured(proposed, speedup))
    return read_history(made, "round-1")


def test_first_round_asks_all_in_turn() -> None:
    assert choose_models(("a", "b", "c"), history(), 5) == ("a", "b", "c", "a", "b")


def test_the_better_for_its_price_is_asked_more_often() -> None:
    past = history(*[("dear", 2.0, 1.0), ("cheap", 2.0, 0.1)] * 4)
    assert gains_per_usd(("dear", "cheap"), past)["cheap"] > 5 * gains_per_usd(("dear", "cheap"), past)["dear"]
    chosen = choose_models(("dear", "cheap"), past, 4)
    assert chosen.count("cheap") > chosen.count("dear")


def test_a_model_that_fails_is_asked_less_and_not_forgotten() -> None:
    past = history(("bad", None, 0.1), ("good", 1.5, 0.1))
    chosen = choose_models(("bad", "good"), past, 40)
    assert 0 < chosen.count("bad") < 15
    assert choose_models(("bad", "good"), past, 1) == ("good",)


def test_same_history_same_choice_and_models_of_no_price_are_compared_too() -> None:
    past = history(("a", 1.2, 0.0), ("b", 1.4, 0.0), ("gone", 3.0, 0.0))
    assert choose_models(("a", "b"), past, 3) == choose_models(("a", "b"), past, 3)
    assert gains_per_usd(("a", "b"), past)["b"] > gains_per_usd(("a", "b"), past)["a"] > 0


def test_one_model_takes_all() -> None:
    assert choose_models(("a",), history(("a", None, 0.1)), 3) == ("a", "a", "a")
