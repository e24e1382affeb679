"""Timing op sites where they stand: around every call at a site while the served model runs real forward passes.

What is measured is eager as serving sees it, with weights as cold as the model's size leaves them. It is for ranking;
a speedup is claimed only from `candidates.benchmark`.
"""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from candidates.pass_times import PassTimes
from candidates.workloads import SeenWorkload, select_workloads
from traces.interpose import interposed
from traces.model_calls import CallRate, ModelCall
from traces.served_model import SyntheticCache, forward
from traces.sites import CapturedSite, OpSite, SiteCall

MEASURED_PASSES = 12
_REPEATS = 3
_FIXED_TOKENS = 32
"""A pass costs about as much as this many tokens before its first token: it reads all weights."""
_THREADS_MARGIN = 1.05
_HOPELESS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTimes:
    """Eager times on this device with `threads` threads, for the passes of the traffic."""

    threads: int
    passes: Mapping[ModelCall, CallRate]
    measured_passes: tuple[ModelCall, ...]
    whole_pass: PassTimes
    one_call: Mapping[str, PassTimes]
    """By op; one call at a site within the pass, the median over the site's instances."""

    def call_us(self, op: str, call: SiteCall) -> float:
        """Of one call at the site, averaged over the passes that make it."""
        rates = {source: rate.per_hour for source, rate in call.sources.items()}
        if not any(rates.values()):
            rates = dict.fromkeys(rates, 1.0)
        time_us = sum(rate * self.one_call[op].estimate_us(source) for source, rate in rates.items())
        return time_us / sum(rates.values())

    def total_us(self, workload_class: str | None = None) -> float:
        """Device time of an hour of traffic, of one workload class where it is given."""
        return sum(
            self.whole_pass.estimate_us(call) * rate_of(rate, workload_class) for call, rate in self.passes.items()
        )


def rate_of(rate: CallRate, workload_class: str | None) -> float:
    return rate.per_hour if workload_class is None else rate.per_hour_by_class.get(workload_class, 0.0)


def measure_sites(
    model: nn.Module,
    captured: Sequence[CapturedSite],
    passes: Mapping[ModelCall, CallRate],
    *,
    threads: int,
    budget_s: float = 25.0,
) -> SiteTimes:
    """Runs the passes that stand for most of the traffic, as far as `budget_s` reaches, at least one of each phase.

    `model` is the served module with its real weights. Raises ValueError for traffic without any pass.
    """
    sites = [each.site for each in captured]
    representatives = _representative_passes(passes)
    whole: dict[ModelCall, float] = {}
    by_site: list[dict[ModelCall, float]] = [{} for _ in sites]
    deadline = time.monotonic() + budget_s
    with use_threads(threads):
        for index, call in enumerate(representatives):
            share_s = max(0.0, deadline - time.monotonic()) / (len(representatives) - index)
            is_needed = call.is_decode not in {measured.is_decode for measured in whole}
            if not is_needed and time.monotonic() > deadline:
                continue
            whole[call], times_us = _measure_pass(model, sites, call, share_s)
            for of_site, time_us in zip(by_site, times_us, strict=True):
                if time_us is not None:
                    of_site[call] = time_us
    return SiteTimes(
        threads=threads,
        passes=passes,
        measured_passes=tuple(whole),
        whole_pass=PassTimes(whole),
        one_call={site.op: PassTimes(of_site) for site, of_site in zip(sites, by_site, strict=True) if of_site},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadChoice:
    threads: int
    decode_us_by_threads: Mapping[int, float]
    """One eager decode pass, median, by number of threads."""


def choose_threads(model: nn.Module, decode: ModelCall, budget_s: float = 8.0) -> ThreadChoice:
    """The number of threads with which eager runs `decode` fastest; fewer where more do not win by 5 %.

    The counts take turns, so that a disturbance of the machine hits all of them.
    """
    counts = list(range(1, len(os.sched_getaffinity(0)) + 1))
    cache = SyntheticCache(model, decode)
    deadline = time.monotonic() + budget_s
    first = {count: _decode_us(model, decode, cache, count) for count in counts}
    # The first run also warms up, but a count that is this far behind will not catch up.
    counts = [count for count in counts if first[count] < _HOPELESS * min(first.values())]
    samples: dict[int, list[float]] = {count: [] for count in counts}
    for repeat in range(_REPEATS):
        if repeat and time.monotonic() > deadline:
            break
        for count in counts:
            samples[count].append(_decode_us(model, decode, cache, count))
    medians = first | {count: statistics.median(times) for count, times in samples.items()}
    best = counts[0]
    for count in counts:
        if medians[count] * _THREADS_MARGIN < medians[best]:
            best = count
    return ThreadChoice(threads=best, decode_us_by_threads=medians)


def _decode_us(model: nn.Module, decode: ModelCall, cache: SyntheticCache, threads: int) -> float:
    with use_threads(threads):
        started = time.perf_counter_ns()
        forward(model, decode, cache)
        return (time.perf_counter_ns() - started) / 1e3


@contextlib.contextmanager
def use_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _representative_passes(passes: Mapping[ModelCall, CallRate]) -> list[ModelCall]:
    """Those that cover most time (by a rough cost) for the time that measuring them takes first: those that stand for
    most passes. One of each phase goes before all others."""
    seen = [
        SeenWorkload(
            axes={"batch": call.batch, "tokens": call.tokens, "tokens_read": call.tokens_read},
            calls_per_hour=rate.per_hour,
            calls_per_hour_by_class=rate.per_hour_by_class,
            time_us=call.batch * call.tokens + _FIXED_TOKENS,
        )
        for call, rate in passes.items()
    ]
    public = [w for w in select_workloads(seen, MEASURED_PASSES).workloads if not w.is_hidden]
    public.sort(key=lambda workload: -workload.calls_per_hour)
    chosen = [
        ModelCall(batch=w.axes["batch"], tokens=w.axes["tokens"], context=w.axes["tokens_read"] - w.axes["tokens"])
        for w in public
    ]
    heaviest = sorted(passes, key=lambda call: -passes[call].per_hour * (call.batch * call.tokens + _FIXED_TOKENS))
    for is_decode in (False, True):
        of_phase = [call for call in (*chosen, *heaviest) if call.is_decode is is_decode]
        if of_phase:
            chosen = [of_phase[0], *(call for call in chosen if call != of_phase[0])]
    return chosen


def _measure_pass(
    model: nn.Module, sites: Sequence[OpSite], call: ModelCall, budget_s: float
) -> tuple[float, list[float | None]]:
    """Microseconds of the whole pass, and of one call at each site (None: not called).

    A median over a site's calls leaves out the moments when something else held the core. A whole pass has few
    samples, so what was left out of the leaves is taken from it in proportion, as far as the sites of each level,
    which do not overlap, still fit into it.
    """
    cache = SyntheticCache(model, call)
    deadline = time.monotonic() + budget_s
    passes_us: list[float] = []
    samples: list[list[float]] = [[] for _ in sites]

    def watch(index: int, original: Callable[..., Any]) -> Callable[..., Any]:
        collect = samples[index].append

        def timed(*arguments: Any, **keywords: Any) -> Any:
            started = time.perf_counter_ns()
            result = original(*arguments, **keywords)
            collect((time.perf_counter_ns() - started) / 1e3)
            return result

        return timed

    with interposed(model, sites, watch):
        for repeat in range(1 + _REPEATS):
            started = time.perf_counter_ns()
            forward(model, call, cache)
            passes_us.append((time.perf_counter_ns() - started) / 1e3)
            if repeat == 0 and passes_us[0] / 1e6 < budget_s / 3:
                # It warmed up; a pass that takes long hides what a first run adds.
                passes_us.clear()
                for of_site in samples:
                    of_site.clear()
            elif time.monotonic() > deadline:
                break
    medians_us = [statistics.median(of_site) if of_site else None for of_site in samples]
    seen_us = dict.fromkeys(("leaf", "block", "layer"), 0.0)
    undisturbed_us = dict(seen_us)
    for site, of_site, median_us in zip(sites, samples, medians_us, strict=True):
        seen_us[site.level] += sum(of_site)
        undisturbed_us[site.level] += (median_us or 0.0) * len(of_site)
    share = undisturbed_us["leaf"] / seen_us["leaf"] if seen_us["leaf"] else 1.0
    pass_us = max(sum(passes_us) * share, *undisturbed_us.values()) / len(passes_us)
    return pass_us, medians_us
