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
from kernel_sandbox.runners.gpu_device import Device

SAMPLE_US = 200.0
MOST_CALLS = 50
COLD_CALLS = 3
"""In a sample: each pays for a flush of L2."""
FEWEST_ROUNDS = 5
SCREEN_ROUNDS = 3

Form = Literal["launched", "graph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    name: str
    form: Form
    call: Callable[[], None]


def forms_of(device: Device, name: str, call: Callable[[], None]) -> tuple[list[Side], str | None]:
    """The two forms of a call that has run before, and why there is only one.

    Raises DeviceFault.
    """
    launched = Side(name=name, form="launched", call=call)
    try:
        graph = device.capture(call)
    except RuntimeError as error:  # a call that waits for the device, for one, cannot be captured
        return [launched], f"{name} is no CUDA graph: {str(error).splitlines()[0][:200]}"
    return [launched, Side(name=name, form="graph", call=graph.replay)], None


def sample_us(device: Device, side: Side, cache: Cache, calls: int) -> float:
    """Of one call, on the device, while its stream does nothing else."""
    if cache is Cache.WARM:
        device.settle_cache(is_cold=False)
        side.call()
        began = device.mark()
        for _ in range(calls):
            side.call()
        return device.mark().us_since(began) / calls
    spans = []
    for _ in range(calls):
        # The flush keeps the device busy while the host launches: what follows waits on the device, not for the host.
        device.settle_cache(is_cold=True)
        began = device.mark()
        side.call()
        spans.append((began, device.mark()))
    return median([ended.us_since(began) for began, ended in spans])


def choose_calls(device: Device, side: Side, cache: Cache) -> int:
    if cache is Cache.COLD:
        return COLD_CALLS
    estimate_us = max(sample_us(device, side, cache, 1), 0.1)
    return max(1, min(MOST_CALLS, int(SAMPLE_US / estimate_us)))


def best_of(device: Device, sides: Sequence[Side], cache: Cache, rng: random.Random) -> Side:
    """By the median of a few rounds; what is fastest is then measured anew, so that luck here flatters nobody."""
    times = run_rounds(device, sides, cache, rng, rounds=SCREEN_ROUNDS, deadline_s=0.0, fewest=SCREEN_ROUNDS)
    return min(zip(sides, times, strict=True), key=lambda pair: median(pair[1]))[0]


def run_rounds(
    device: Device,
    sides: Sequence[Side],
    cache: Cache,
    rng: random.Random,
    *,
    rounds: int,
    deadline_s: float,
    fewest: int = FEWEST_ROUNDS,
) -> list[list[float]]:
    """us of one call, by side and round; every round takes all sides, in an order of its own.

    Ends early when `time.monotonic()` passes the deadline, never before `fewest` rounds.
    """
    calls = min(choose_calls(device, side, cache) for side in sides)
    times: list[list[float]] = [[] for _ in sides]
    for done in range(rounds):
        if done >= fewest and time.monotonic() > deadline_s:
            break
        for index in rng.sample(range(len(sides)), len(sides)):
            times[index].append(sample_us(device, sides[index], cache, calls))
    return times
