"""Samples of several sides on one device, in random order, L2 cold or warm, each side launched and from a graph.

The clock is the device's: all sides here are ours or PyTorch's, and nobody has a reason to lie.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from candidates.benchmark.statistics import median
from compiler_agent.gpu_check.results import Cache
from kernel_sandbox.runners.gpu_device import CaptureFailed, Device

SAMPLE_US = 200.0
MOST_CALLS = 50
GRAPH_CALLS = 10
"""In one graph, where L2 stays warm: serving replays a whole step, and a call in it has no replay of its own."""
COLD_CALLS = 3
"""In a sample: each pays for a flush of L2."""
FEWEST_ROUNDS = 5
SCREEN_ROUNDS = 3

Form = Literal["launched", "graph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    name: str
    form: Form
    run: Callable[[], None]
    calls_a_run: int = 1


def forms_of(device: Device, name: str, call: Callable[[], None], cache: Cache) -> tuple[list[Side], str | None]:
    """The two forms of a call that has run before, and why there is only one.

    Raises DeviceFault.
    """
    launched = Side(name=name, form="launched", run=call)
    calls = GRAPH_CALLS if cache is Cache.WARM else 1

    def call_all() -> None:
        for _ in range(calls):
            call()

    try:
        graph = device.capture(call_all)
    except CaptureFailed as failed:
        return [launched], f"{name} is no CUDA graph: {str(failed)[:200]}"
    return [launched, Side(name=name, form="graph", run=graph.replay, calls_a_run=calls)], None


def sample_us(device: Device, side: Side, cache: Cache, calls: int) -> float:
    """Of one call, on the device, while its stream does nothing else."""
    if cache is Cache.WARM:
        device.settle_cache(is_cold=False)
        side.run()
        runs = -(-calls // side.calls_a_run)
        began = device.mark()
        for _ in range(runs):
            side.run()
        return device.mark().us_since(began) / (runs * side.calls_a_run)
    spans = []
    for _ in range(calls):
        # The flush keeps the device busy while the host launches: what follows waits on the device, not for the host.
        device.settle_cache(is_cold=True)
        began = device.mark()
        side.run()
        spans.append((began, device.mark()))
    return median([ended.us_since(began) for began, ended in spans])


def choose_calls(device: Device, side: Side, cache: Cache) -> int:
    if cache is Cache.COLD:
        return COLD_CALLS
    estimate_us = max(sample_us(device, side, cache, 1), 0.1)
    return max(1, min(MOST_CALLS, int(SAMPLE_US / estimate_us)))


def best_of(device: Device, sides: Sequence[Side], cache: Cache, rng: random.Random) -> Side:
    """By the median of a few rounds; what is fastest is then measured anew, so that luck here flatters nobody."""
    times = run_rounds(device, sides, cache, rng, rounds=SCREEN_ROUNDS, deadline_s=0.0)
    return min(zip(sides, times, strict=True), key=lambda pair: median(pair[1]))[0]


def run_rounds(
    device: Device,
    sides: Sequence[Side],
    cache: Cache,
    rng: random.Random,
    *,
    rounds: int,
    deadline_s: float,
) -> list[list[float]]:
    """us of one call, by side and round; every round takes all sides, in an order of its own.

    Ends early when `time.monotonic()` passes the deadline, never before FEWEST_ROUNDS rounds.
    """
    calls = min(choose_calls(device, side, cache) for side in sides)
    times: list[list[float]] = [[] for _ in sides]
    for done in range(rounds):
        if done >= FEWEST_ROUNDS and time.monotonic() > deadline_s:
            break
        for index in rng.sample(range(len(sides)), len(sides)):
            times[index].append(sample_us(device, sides[index], cache, calls))
    return times
