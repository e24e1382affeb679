"""Verdict: what the judge says of a candidate, as a sum type read with `match`."""

from enum import StrEnum
from typing import Annotated, Literal, TypeGuard

from pydantic import Field

from candidates.record import Record


class Reason(StrEnum):
    """Why a candidate was rejected. Closed: a judge that needs another reason adds it here."""

    BUILD_FAILED = "build_failed"
    FORBIDDEN_BUILD_FLAG = "forbidden_build_flag"
    LOAD_FAILED = "load_failed"
    PREPARE_FAILED = "prepare_failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    FORBIDDEN_SYSTEM_CALL = "forbidden_system_call"
    FORBIDDEN_SYMBOL = "forbidden_symbol"
    LIBRARY_CALL = "library_call"
    """Its host code had a library compute: that is no kernel."""
    BROKE_PROTOCOL = "broke_protocol"
    OUTPUT_NOT_WRITTEN = "output_not_written"
    WRONG_VALUES = "wrong_values"
    WRONG_NON_FINITE = "wrong_non_finite"
    WROTE_OUT_OF_BOUNDS = "wrote_out_of_bounds"
    CHANGED_INPUTS = "changed_inputs"
    """Wrote to an input that is no state, where memory cannot forbid it."""
    OUTPUT_CHANGED_AFTER_RETURN = "output_changed_after_return"
    CHANGED_FLOAT_STATE = "changed_float_state"
    """Left rounding mode, flush-to-zero or exception masks otherwise than it found them."""
    MEMORY_ERROR = "memory_error"
    """Found by the address sanitizer, or by compute-sanitizer's memcheck."""
    UNDEFINED_BEHAVIOUR = "undefined_behaviour"
    """Found by the undefined-behaviour sanitizer, or by compute-sanitizer as a race or a barrier's misuse."""
    NOT_DETERMINISTIC = "not_deterministic"
    FASTER_THAN_POSSIBLE = "faster_than_possible"
    AMORTISED = "amortised"
    PROVOKED_PREEMPTION = "provoked_preemption"
    RETRACTED = "retracted"
    """It won before, and somebody found a flaw in it."""


class WorstElement(Record):
    """The output element furthest beyond its bound; values as text, since they may be NaN or infinite."""

    output: str
    index: tuple[int, ...]
    expected: str
    got: str
    bound: str


class Evidence(Record):
    """What an author needs to act on a rejection, in words and numbers."""

    message: str
    distribution: str | None = None
    worst: WorstElement | None = None
    share_of_elements_wrong: float | None = Field(default=None, ge=0, le=1)
    log_tail: str = ""


class EvidenceKind(StrEnum):
    NATIVE = "native"
    """Ran on the task's device. Only native evidence ships."""
    INTERPRETED = "interpreted"


class Accepted(Record):
    outcome: Literal["accepted"] = "accepted"
    evidence: EvidenceKind
    seed: int
    calls_checked: int = Field(ge=1)
    worst_error_in_bounds: float = Field(ge=0, le=1)
    """The largest error seen, as a share of its bound."""


class Rejected(Record):
    outcome: Literal["rejected"] = "rejected"
    reason: Reason
    workload: str | None
    """Name of the workload, `hidden` for one that authors must not see, None before any ran."""
    evidence: Evidence
    seed: int


class NeedsDevice(Record):
    outcome: Literal["needs_device"] = "needs_device"
    target: str
    """Id of the device that can tell."""
    note: str = ""
    """Why what is here cannot."""


def waits_for_device(verdict: "Verdict") -> bool:
    """Whether nothing speaks against the kernel but that it has not run on a device of the task's kind."""
    return not isinstance(verdict, Rejected) and not is_native(verdict)


def is_native(verdict: "Verdict") -> TypeGuard[Accepted]:
    """Whether the kernel ran on the task's device: only such a kernel can be timed, and shipped."""
    return isinstance(verdict, Accepted) and verdict.evidence is EvidenceKind.NATIVE


Verdict = Annotated[Accepted | Rejected | NeedsDevice, Field(discriminator="outcome")]
