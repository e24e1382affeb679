"""ForestSampler: Optuna's sampler over a finite space whose legal points are all known beforehand.

A random forest learns which of the points tried are among the best, and the untried one that it finds likeliest to be
comes next: likelihood-free Bayesian optimisation (Song, Yu, Neiswanger, Ermon: A General Recipe for Likelihood-free
Bayesian Optimization, ICML 2022). It takes what failed for what is not good, and needs no model of noise.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial

from compiler_agent.agents.search.space import Choice

Point = Mapping[str, Choice]

GOOD_SHARE = 0.3
"""Of what was tried: what the forest is to recognise."""
FEWEST_TO_LEARN_FROM = 4
RELEARNT_AFTER = 4
"""So many more results."""
TREES = 60
MOST_LOOKED_AT = 20_000
"""Points of a draw; of a larger space so many at random."""
CROWDING = 0.1
"""What a point loses beside one that is being tried meanwhile, in likelihood; it fades with what differs."""
_SPREAD_AMONG = 64


class ForestSampler(optuna.samplers.BaseSampler):
    """Of studies that maximise. A point is drawn once at most."""

    def __init__(self, points: Sequence[Point], seed: int, ruled_out: Collection[int] = ()) -> None:
        """`points` are of the same fields, in one order, each once. Those whose places are `ruled_out` are not drawn;
        they may have been tried, and are learnt from."""
        self._points = points
        self._rng = np.random.default_rng(seed)
        self._distributions: dict[str, BaseDistribution] = {
            field: CategoricalDistribution(tuple(dict.fromkeys(point[field] for point in points)))
            for field in points[0]
        }
        self._features = _features(points)
        self._places = {tuple(point.values()): place for place, point in enumerate(points)}
        self._drawable = np.setdiff1d(np.arange(len(points)), list(ruled_out))
        self._learnt_from = -RELEARNT_AFTER
        self._forest: Any = None

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """For `Study.ask`."""
        return self._distributions

    def has(self, point: Point) -> bool:
        return tuple(point.values()) in self._places

    def count_left(self, study: optuna.Study) -> int:
        """Points that may still be drawn."""
        return len(self._left(study.get_trials(deepcopy=False)))

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next point; one at random where all were drawn."""
        trials = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        place = self._draw(trials)
        return dict(self._points[place])

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        raise ValueError(f"{param_name} is no field of the space, which has {', '.join(self._distributions)}")

    def _draw(self, trials: Sequence[FrozenTrial]) -> int:
        places = self._places_of(trials)
        finished = [each.state.is_finished() for each in trials]
        left = self._left(trials)
        if not left.size:
            return int(self._rng.integers(len(self._points)))
        if len(left) > MOST_LOOKED_AT:
            left = self._rng.choice(left, MOST_LOOKED_AT, replace=False)
        tried = [(place, each) for place, each, ended in zip(places, trials, finished, strict=True) if ended]
        if len(tried) >= self._learnt_from + RELEARNT_AFTER:
            self._learnt_from, self._forest = len(tried), self._learn(tried)
        if self._forest is None:
            return self._far_from(places, left)
        likelihoods = self._forest.predict_proba(self._features[left])[:, 1] + 1e-9 * self._rng.random(len(left))
        for place, ended in zip(places, finished, strict=True):
            if not ended:
                differing = (self._features[left] != self._features[place]).mean(axis=1)
                likelihoods -= CROWDING * np.exp(-4 * differing)
        return int(left[likelihoods.argmax()])

    def _places_of(self, trials: Sequence[FrozenTrial]) -> list[int]:
        return [self._places[tuple(each.params[field] for field in self._distributions)] for each in trials]

    def _left(self, trials: Sequence[FrozenTrial]) -> npt.NDArray[np.int64]:
        return np.setdiff1d(self._drawable, self._places_of(trials))

    def _learn(self, tried: Sequence[tuple[int, FrozenTrial]]) -> Any:
        """A RandomForestClassifier; None where there is nothing to learn from yet."""
        # Most of a second, for which no other command of the CLI need wait.
        from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]  # ships no types

        values = np.array([-np.inf if each.value is None else each.value for _, each in tried])
        if len(tried) < FEWEST_TO_LEARN_FROM:
            return None
        good = values >= np.sort(values)[-max(1, round(GOOD_SHARE * len(values)))]
        good &= np.isfinite(values)
        if good.all() or not good.any():
            return None
        # The better, the more it counts: expected improvement, as the paper has it.
        excess = np.where(good, values - values[good].min(), 0.0)
        weights = np.where(good, excess / (excess.max() or 1.0) + 0.1, 1.0)
        weights[good] *= good.sum() / weights[good].sum()
        forest = RandomForestClassifier(TREES, random_state=int(self._rng.integers(1 << 31)))
        return forest.fit(self._features[[place for place, _ in tried]], good, sample_weight=weights)

    def _far_from(self, places: Sequence[int], left: npt.NDArray[np.int64]) -> int:
        """Of some points at random the one that differs most from its nearest neighbour among `places`."""
        some = self._rng.choice(left, min(_SPREAD_AMONG, len(left)), replace=False)
        if not places:
            return int(some[0])
        differing = (self._features[some][:, None, :] != self._features[places][None]).sum(axis=2).min(axis=1)
        return int(some[differing.argmax()])


def _features(points: Sequence[Point]) -> npt.NDArray[np.float64]:
    """`[points, fields]`: numbers as they are, words by their number."""
    words: dict[Choice, float] = {}
    rows = [
        [
            float(value) if isinstance(value, int) else words.setdefault(value, float(len(words)))
            for value in point.values()
        ]
        for point in points
    ]
    return np.array(rows)
