"""The sampler over a finite space: legal points alone, none twice, and better ones sooner than by chance."""

import itertools
import statistics

import optuna
import pytest
from optuna.trial import TrialState

from benchmarks.search_strategies import STRATEGIES, evaluations_until_good, read_space
from compiler_agent.agents.search.forest_sampler import ForestSampler

POINTS = [
    {"tile": tile, "unroll": unroll, "weights": weights}
    for tile, unroll, weights in itertools.product((1, 2, 4, 8), (1, 2, 4), ("panels", "rows"))
    if tile * unroll <= 16
]


def study_of(seed: int, ruled_out: tuple[int, ...] = ()) -> tuple[optuna.Study, ForestSampler]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = ForestSampler(POINTS, seed, ruled_out)
    return optuna.create_study(direction="maximize", sampler=sampler), sampler


@pytest.mark.parametrize("seed", range(5))
def test_draws_every_point_that_is_not_ruled_out_exactly_once_whatever_fails(seed: int) -> None:
    study, sampler = study_of(seed, ruled_out=(0, 7))
    drawn = []
    for number in range(sampler.count_left(study)):
        trial = study.ask(sampler.distributions)
        drawn.append(trial.params)
        if number % 3:
            study.tell(trial, float(trial.params["tile"]))
        elif number % 2:
            study.tell(trial, state=TrialState.FAIL)
    assert sampler.count_left(study) == 0
    allowed = [point for place, point in enumerate(POINTS) if place not in (0, 7)]
    assert sorted(map(repr, drawn)) == sorted(map(repr, allowed))


def test_learns_from_points_that_it_may_not_draw() -> None:
    rows = tuple(place for place, point in enumerate(POINTS) if point["weights"] == "rows")
    study, sampler = study_of(0, ruled_out=rows)
    for place in rows:
        value = float(POINTS[place]["tile"])
        study.add_trial(
            optuna.trial.create_trial(params=dict(POINTS[place]), distributions=sampler.distributions, value=value)
        )
    assert study.ask(sampler.distributions).params["tile"] == 8


def test_the_same_history_and_seed_draw_the_same() -> None:
    def draws() -> list[dict[str, object]]:
        study, sampler = study_of(3)
        for place in range(12):
            params = dict(POINTS[place])
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=sampler.distributions, value=float(place % 5))
            )
        return [study.ask(sampler.distributions).params for _ in range(4)]

    assert draws() == draws()


def test_finds_the_best_of_a_measured_space_much_sooner_than_by_chance_and_no_later_than_tpe() -> None:
    space = read_space()
    needed = {
        name: statistics.mean(evaluations_until_good(space, strategy, seed, 0.98) for seed in range(20))
        for name, strategy in STRATEGIES.items()
    }
    assert needed["forest"] < needed["random"] / 1.5
    assert needed["forest"] < 1.2 * needed["tpe"]
