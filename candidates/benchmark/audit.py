"""Audit: timed calls are checked calls. Every output of a batch for untouched poison, a secret few for their values."""

import time

import numpy as np

from candidates.benchmark.slots import Slots
from candidates.judge.outputs import Fault, check_outputs, rejected
from candidates.verdict import Reason, Rejected

_CALLS_A_SAMPLE = 2
_SHARE_OF_TIME = 0.3


class Caught(Exception):
    """A candidate that did not do in a timed batch what it does when it is only checked."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.evidence.message)
        self.rejected = rejected


class Audit:
    """Called with the slots and the number of calls of each candidate's sample, while the candidate is frozen."""

    def __init__(self, rng: np.random.Generator, seed: int) -> None:
        self._rng = rng
        self._seed = seed
        self._began_s = time.monotonic()
        self._checking_s = 0.0
        self.calls_checked = 0

    def __call__(self, slots: Slots, count: int) -> None:
        untouched = slots.find_untouched(count)
        if untouched is not None:
            message = f"call {untouched} of a timed batch of {count} left an output as it was"
            fault = Fault(reason=Reason.OUTPUT_NOT_WRITTEN, message=message)
            raise Caught(rejected(slots.workload, fault, seed=self._seed))
        # Oracles of large workloads take longer than what is timed; always look at some, never spend all time on it.
        if self.calls_checked and self._checking_s > _SHARE_OF_TIME * (time.monotonic() - self._began_s):
            return
        began_s = time.monotonic()
        # The last call is where work that went on after the reply would be missing.
        for index in {count - 1, *self._rng.integers(0, count, _CALLS_A_SAMPLE - 1).tolist()}:
            self._check(slots, index)
        self._checking_s += time.monotonic() - began_s

    def _check(self, slots: Slots, index: int) -> None:
        self.calls_checked += 1
        found = check_outputs(slots.task, slots.workload, slots.inputs(index), slots.outputs(index), seed=self._seed)
        if isinstance(found, Rejected):
            raise Caught(found)
