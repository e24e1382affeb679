"""Audit: timed calls are checked calls. Every output of a batch for untouched poison, a secret few for their values."""

import time
from dataclasses import dataclass

import numpy as np
import torch

from candidates.benchmark.slots import Slots
from candidates.judge.outputs import Fault, check_outputs, rejected
from candidates.task import KernelTask, Workload
from candidates.verdict import Reason, Rejected

Tensors = dict[str, torch.Tensor]

_CALLS_A_SAMPLE = 2
_SHARE_OF_TIME = 0.3


class Caught(Exception):
    """A candidate that did not do in a timed batch what it does when it is only checked."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.evidence.message)
        self.rejected = rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What a frozen side left: copies, so that the slots can be used again."""

    workload: Workload
    count: int
    untouched: int | None
    """The first call with an output that is still poisoned all over."""
    calls: tuple[tuple[Tensors, Tensors], ...]
    """Inputs and results of a secret few."""


class Audit:
    def __init__(self, task: KernelTask, rng: np.random.Generator, seed: int) -> None:
        self._task = task
        self._rng = rng
        self._seed = seed
        self._began_s = time.monotonic()
        self._checking_s = 0.0

    def look(self, slots: Slots, count: int) -> Sighting:
        # The last call is where work that went on after the reply would be missing.
        chosen = {count - 1, *self._rng.integers(0, count, _CALLS_A_SAMPLE - 1).tolist()}
        return Sighting(
            workload=slots.workload,
            count=count,
            untouched=slots.find_untouched(count),
            calls=tuple((slots.inputs(index), slots.outputs(index)) for index in chosen),
        )

    def judge(self, seen: Sighting) -> None:
        """Raises Caught. Oracles of large workloads take longer than what is timed: they are given a share of the time,
        and always the first look."""
        if seen.untouched is not None:
            message = f"call {seen.untouched} of a timed batch of {seen.count} left an output as it was"
            fault = Fault(reason=Reason.OUTPUT_NOT_WRITTEN, message=message)
            raise Caught(rejected(seen.workload, fault, seed=self._seed))
        began_s = time.monotonic()
        if self._checking_s > _SHARE_OF_TIME * (began_s - self._began_s):
            return
        for inputs, results in seen.calls:
            found = check_outputs(self._task, seen.workload, inputs, results, seed=self._seed)
            if isinstance(found, Rejected):
                raise Caught(found)
        self._checking_s += time.monotonic() - began_s
