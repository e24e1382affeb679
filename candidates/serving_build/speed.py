"""Speed of a build against eager and the live build: paired forward passes over the traffic, and their ratios."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from candidates.measurement import Interval
from candidates.promotion import PathName
from candidates.serving_build.quality import kl_divergence
from candidates.serving_build.served_process import Ids, Logits, ServedProcess, ServedProcessLate
from traces.model_calls import ModelCall, model_calls
from traces.replay.step import EngineStep

DECODE_STRATA, PREFILL_STRATA = 4, 2
MIN_PASSES, MAX_PASSES = 2, 100
SHORTEST_PREFILL_TOKENS = 64
MOST_TIMED_KL = 1e-2
"""Of a timed step's logits to eager's: far beyond what any build that passes its gates has, far below an answer that
was not computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One kind of forward pass, and how many of it the traffic makes."""

    call: ModelCall
    passes: float
    """0: the traffic makes no pass of this kind (decode or prefill); measured all the same, counts in no total."""
    full_tokens: int
    """Tokens of the traffic's pass where `call` is a shortened one that fits the time."""

    @property
    def is_decode(self) -> bool:
        return self.call.is_decode

    @property
    def scale(self) -> float:
        return self.full_tokens / self.call.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    stratum: Stratum
    ns: Mapping[PathName, npt.NDArray[np.float64]]
    """Same lengths: pass i of all sides ran one right after the other on the same tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    value: float
    interval: Interval


def choose_strata(steps: Sequence[EngineStep]) -> tuple[Stratum, ...]:
    """The decode and prefill passes that take most of the traffic's time, standing for all of their kind."""
    passes = {call: rate.per_hour for call, rate in model_calls(steps, 3600.0).items()}
    chosen: list[Stratum] = []
    for is_decode, count in ((True, DECODE_STRATA), (False, PREFILL_STRATA)):
        kind = {call: number for call, number in passes.items() if call.is_decode is is_decode}
        ranked = sorted(kind, key=lambda call: -kind[call] * _relative_cost(call))
        cost = sum(kind[call] * _relative_cost(call) for call in ranked)
        covered = sum(kind[call] * _relative_cost(call) for call in ranked[:count])
        chosen += [
            Stratum(call=call, passes=kind[call] * cost / covered, full_tokens=call.tokens) for call in ranked[:count]
        ]
        if not kind:
            call = ModelCall(batch=1, tokens=1, context=128) if is_decode else ModelCall(batch=1, tokens=64, context=0)
            chosen.append(Stratum(call=call, passes=0.0, full_tokens=call.tokens))
    return tuple(chosen)


def time_passes(
    sides: Mapping[PathName, ServedProcess],
    strata: Sequence[Stratum],
    vocabulary: int,
    seconds: float,
    rng: np.random.Generator,
) -> tuple[Passes, ...]:
    """Times every stratum for its share of `seconds`, at least MIN_PASSES of each side. Who weighs more gets more."""
    deadline_s = time.monotonic() + seconds
    weights = _time_weights(strata)
    measured = []
    for number, stratum in enumerate(strata):
        share_s = _remaining_s(deadline_s) * weights[number] / sum(weights[number:])
        measured.append(_time_stratum(sides, stratum, vocabulary, share_s, rng))
    return tuple(measured)


def fit_strata(
    eager: ServedProcess, strata: Sequence[Stratum], vocabulary: int, seconds: float, rng: np.random.Generator
) -> tuple[Stratum, ...]:
    """The strata with prefills shortened by halves until MIN_PASSES of a side fit; `Stratum.scale` says by how much."""
    weights = _time_weights(strata)
    return tuple(
        _fit(eager, stratum, vocabulary, seconds * weight / sum(weights), rng)
        for stratum, weight in zip(strata, weights, strict=True)
    )


def time_alone(
    process: ServedProcess,
    strata: Sequence[Stratum],
    vocabulary: int,
    seconds: float,
    rng: np.random.Generator,
) -> Mapping[Stratum, float]:
    """Median ns of each stratum in one process, the first pass (which may compile) left out.

    Strata that do not fit into `seconds` are missing; the process is then gone.
    """
    deadline_s = time.monotonic() + seconds
    medians: dict[Stratum, float] = {}
    for stratum in strata:
        times = []
        try:
            process.wait_until_ready(limit_s=_remaining_s(deadline_s))
            start_context([process], stratum.call, seed=0)
            for _ in range(1 + MIN_PASSES):
                ids = random_ids(stratum.call, vocabulary, rng)
                times.append(process.time_step(ids, limit_s=_remaining_s(deadline_s)))
        except ServedProcessLate:
            break
        medians[stratum] = float(np.median(times[1:]))
    return medians


def _remaining_s(deadline_s: float) -> float:
    return max(deadline_s - time.monotonic(), 0.0)


def speedup(rounds: Sequence[Sequence[Passes]], over: PathName) -> Speedup:
    """The time of `over` over that of the build, all passes together, each stratum weighted by its share of `over`'s.

    A round has fresh processes: the value is the median over rounds, the interval their range. One pair of processes
    cannot tell: with identical code on both sides their ratio was off by 2.5 %, once by 30 %, for as long
    as they lived, since each has its weights and caches on pages of its own.
    """
    totals = [_total(passes, over) for passes in rounds]
    return Speedup(value=float(np.median(totals)), interval=Interval(min(totals), max(totals)))


def _total(timed: Sequence[Passes], over: PathName) -> float:
    weights = np.array([passes.stratum.passes * passes.stratum.scale for passes in timed])
    if not weights.any():
        weights = np.ones(len(timed))
    weights = weights * [float(np.median(passes.ns[over])) for passes in timed]
    return float(weights.sum() / (weights / np.array([ratio(passes, over) for passes in timed])).sum())


def ratio(passes: Passes, over: PathName) -> float:
    """Median over passes of the time of `over` / build time."""
    return float(np.exp(np.median(np.log(passes.ns[over] / passes.ns[PathName.BUILD]))))


def _time_weights(strata: Sequence[Stratum]) -> list[float]:
    """By share of the traffic's time, none below a third of an equal share."""
    costs = [stratum.passes * _relative_cost(stratum.call) for stratum in strata]
    least = 1 / (3 * len(strata))
    return [max(cost / (sum(costs) or 1.0), least) for cost in costs]


def _fit(eager: ServedProcess, stratum: Stratum, vocabulary: int, share_s: float, rng: np.random.Generator) -> Stratum:
    """The stratum with a pass short enough for MIN_PASSES and a warm-up of two sides in `share_s`."""
    if stratum.is_decode:
        return stratum
    probe = replace(stratum.call, tokens=min(stratum.call.tokens, 64))
    eager.freeze()
    start_context([eager], probe, seed=0)
    eager.time_step(random_ids(probe, vocabulary, rng))
    ns_per_token = eager.time_step(random_ids(probe, vocabulary, rng)) / probe.tokens
    tokens = stratum.call.tokens
    while tokens >= 2 * SHORTEST_PREFILL_TOKENS and 2 * (MIN_PASSES + 1) * tokens * ns_per_token > share_s * 1e9:
        tokens = math.ceil(tokens / 2)
    return replace(stratum, call=replace(stratum.call, tokens=tokens))


def _time_stratum(
    sides: Mapping[PathName, ServedProcess],
    stratum: Stratum,
    vocabulary: int,
    seconds: float,
    rng: np.random.Generator,
) -> Passes:
    deadline_s = time.monotonic() + seconds
    call = stratum.call
    start_context(list(sides.values()), call, seed=int(rng.integers(1 << 31)))
    for process in sides.values():
        process.time_step(random_ids(call, vocabulary, rng))
    times: dict[PathName, list[int]] = {path: [] for path in sides}
    done = 0
    while done < MIN_PASSES or (time.monotonic() < deadline_s and done < MAX_PASSES):
        ids = random_ids(call, vocabulary, rng)
        logits: dict[PathName, Logits] = {}
        for place in rng.permutation(len(sides)):
            path = list(sides)[place]
            times[path].append(sides[path].time_step(ids))
            logits[path] = sides[path].last_logits(call.batch)
        for path, process in sides.items():
            if kl_divergence(logits[PathName.EAGER], logits[path]).mean() > MOST_TIMED_KL:
                raise process.ended("answered a timed step with other logits than the model's")
        done += 1
    return Passes(stratum=stratum, ns={path: np.array(taken, dtype=np.float64) for path, taken in times.items()})


def start_context(processes: Sequence[ServedProcess], call: ModelCall, seed: int) -> None:
    """Gives each a cache of `call.context` tokens, and leaves it frozen."""
    for process in processes:
        process.thaw()
        process.ask("cache", batch=call.batch, context=call.context, seed=seed)
        process.freeze()


def random_ids(call: ModelCall, vocabulary: int, rng: np.random.Generator) -> Ids:
    """Fresh tokens for one pass: [batch, tokens]."""
    return rng.integers(0, vocabulary, (call.batch, call.tokens))


def _relative_cost(call: ModelCall) -> float:
    """Only for ranking: reading all weights once costs about as much as multiplying 8 rows by them."""
    return 1.0 + call.batch * call.tokens / 8
