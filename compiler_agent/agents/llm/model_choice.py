"""Which model writes which kernel of a round: all of them at first, then those that gained most for their price.

UCB1 (Auer, Cesa-Bianchi, Fischer 2002) over gains per dollar, which are scaled so that the best model has 1.
"""

import math
from collections.abc import Sequence

from candidates.agent import Attempt
from compiler_agent.agents.llm.history import History

EXPLORATION = 1.0
_LEAST_USD = 0.001
"""Of a kernel: what cost less, or nothing that is known, counts as this."""


def choose_models(models: Sequence[str], history: History, count: int) -> tuple[str, ...]:
    """One model for each of `count` samples; in the first round they take turns. The same history, the same choice."""
    if not history.rounds:
        return tuple(models[place % len(models)] for place in range(count))
    gains = gains_per_usd(models, history)
    most = max(gains.values())
    values = {model: gain / most if most > 0 else 0.0 for model, gain in gains.items()}
    # At least one each: what the first round asked in vain leaves no attempt.
    pulls = {model: max(1, sum(each.proposal.model == model for each in history.own)) for model in models}
    chosen = []
    for _ in range(count):
        total = sum(pulls.values())
        scores = {model: values[model] + EXPLORATION * math.sqrt(math.log(total) / pulls[model]) for model in models}
        best = max(models, key=lambda model: scores[model])
        pulls[best] += 1
        chosen.append(best)
    return tuple(chosen)


def gains_per_usd(models: Sequence[str], history: History) -> dict[str, float]:
    """By model: the logarithms of its speedups over the best of its agent before, added up, per dollar.

    A first accepted kernel counts from 1x, and one that is slower than the best counts as nothing.
    """
    gained = dict.fromkeys(models, 0.0)
    usd = dict.fromkeys(models, 0.0)
    best = 1.0
    for each in history.rounds:
        for attempt in each:
            model = attempt.proposal.model
            if model in gained:
                gained[model] += max(0.0, math.log((attempt.speedup or best) / best))
                usd[model] += max(_LEAST_USD, attempt.proposal.cost_usd)
        best = max(best, _best_speedup(each))
    return {model: gained[model] / max(_LEAST_USD, usd[model]) for model in models}


def _best_speedup(attempts: Sequence[Attempt]) -> float:
    return max((attempt.speedup for attempt in attempts if attempt.speedup is not None), default=0.0)
