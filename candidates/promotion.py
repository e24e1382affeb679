"""Promotion: which winners go into the serving build, decided by a pure function of records."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from candidates.measurement import Decision, Interval, Measurement
from candidates.record import Record
from candidates.task import SiteLevel
from candidates.verdict import Verdict, is_native


class Gate(Record):
    """One condition with its figure."""

    name: str
    figure: float | str
    bound: str
    passed: bool


def have_passed(gates: Sequence[Gate]) -> bool:
    """A build that was never measured has not."""
    return bool(gates) and all(gate.passed for gate in gates)


class PromotionDecision(Record):
    task_id: str
    candidate_id: str
    gates: tuple[Gate, ...]

    @property
    def is_promoted(self) -> bool:
        return all(gate.passed for gate in self.gates)


class PathName(StrEnum):
    """Ways to run the served model."""

    EAGER = "eager"
    COMPILE = "compile"
    BUILD = "build"
    CURRENT = "current"
    """With the build that is live."""


UNCHANGED = "nothing has changed since it won"
"""The one gate of a live kernel that a run carries on without measuring it anew."""


class EndToEnd(Record):
    """The served model with and without a build, paired over steps stratified by their share of traffic time."""

    build_id: str
    threads: int = Field(ge=1)
    decode_tokens_per_s: dict[PathName, float]
    prefill_tokens_per_s: dict[PathName, float]
    ttft_s: dict[PathName, float]
    speedup: float = Field(gt=0)
    """Traffic-weighted eager time / build time over all steps."""
    speedup_interval: Interval
    decode_speedup: float = Field(gt=0)
    decode_speedup_interval: Interval
    prefill_speedup: float = Field(gt=0)
    prefill_speedup_interval: Interval
    live_build: str | None = None
    """What was live meanwhile, of whatever model."""
    current_build: str | None = None
    """The live build that this one was paired with; None: there is none for this model, it is this one, or it is wrong.
    """
    over_current: Interval | None = None
    """The live build's time / this build's over all steps."""
    peak_memory_bytes: dict[PathName, int]
    """Resident, of one process, as it says itself."""
    kl_divergence: float = Field(ge=0)
    """Mean over positions of KL(eager || build), nats."""
    kl_of_long: float = Field(ge=0)
    """Of the positions behind a long context alone."""
    kl_noise: float = Field(ge=0)
    """KL of eager with itself, in a batch and alone or run again."""
    logprob_drift: float = Field(ge=0)
    """Of the mean log probability of fixed prompts' own tokens, nats."""
    logit_noise: float = Field(ge=0)
    """Largest difference of a logit of eager between batch sizes, or between runs."""
    row_split_difference: float = Field(ge=0)
    """The same of the build between batch sizes."""
    positions: int = Field(ge=1)
    greedy_agreement: float = Field(ge=0, le=1)
    """Over the positions where the top two logits of eager differ by more than its own noise."""
    greedy_positions: int = Field(ge=0)
    hits: dict[str, int]
    """Calls that each kernel of the build served, by candidate id."""
    misses: dict[str, int]
    notes: tuple[str, ...] = ()
    """What a reader of the figures must know: a path left out, a shape that was measured in place of another."""
    wall_s: float = Field(ge=0)


def decide_promotion(task_id: str, candidate_id: str, verdict: Verdict, measurement: Measurement) -> PromotionDecision:
    """The gates of one kernel; the build as a whole must still win end to end (`decide_build`)."""
    slowest = min((m.speedup_over_best for m in measurement.workloads), default=0.0)
    gates = (
        Gate(
            name="judged correct on the device",
            figure=verdict.outcome,
            bound="accepted, native",
            passed=is_native(verdict),
        ),
        Gate(
            name="confirmed win over the best baseline",
            figure=measurement.traffic_weighted_speedup,
            bound="> 1.03 in every fresh process",
            passed=measurement.stage == "confirm" and measurement.decision is Decision.WIN,
        ),
        Gate(
            name="no protected workload shown slower",
            figure=slowest,
            bound="no workload shown below 0.99",
            passed=all(m.interval.high >= 0.99 for m in measurement.workloads),
        ),
    )
    return PromotionDecision(task_id=task_id, candidate_id=candidate_id, gates=gates)


class Retraction(Record):
    """Why a kernel that won may not be shipped any more."""

    candidate_id: str
    reason: str = Field(min_length=1)
    by: str
    """Who or what found it."""


class WonKernel(Record):
    """What a build needs to know to choose between kernels that cover each other."""

    task_id: str
    candidate_id: str
    module_paths: tuple[str, ...]
    level: SiteLevel
    workloads: frozenset[str]
    """The calls that the public workloads are, as `KernelTask.public_calls` names them."""
    saved_share: float
    """Of device time: the site's share times (1 - 1 / speedup)."""

    def lies_within(self, outer: "WonKernel") -> bool:
        """Whether every call that this kernel serves happens inside a call that `outer` serves.

        A function without module paths may be called from anywhere.
        """
        is_inside = bool(self.module_paths) and all(
            any(path == module or path.startswith(f"{module}.") for module in outer.module_paths)
            for path in self.module_paths
        )
        if not is_inside or self.level is outer.level:
            return False
        own, others = (list(map(_axes_of, each.workloads)) for each in (self, outer))
        return any(_may_be_of_one_pass(a, b) for a in own for b in others)


def _axes_of(call: str) -> dict[str, int]:
    """And `rows`, which some calls have in place of a batch of tokens."""
    axes = {axis: int(size) for axis, _, size in (part.partition("=") for part in call.split(",")) if size}
    return {"rows": axes["batch"] * axes["tokens"]} | axes if {"batch", "tokens"} <= axes.keys() else axes


def _may_be_of_one_pass(a: dict[str, int], b: dict[str, int]) -> bool:
    """A call of attention has a context, one of a norm within the same layer has none: what both have must agree."""
    shared = a.keys() & b.keys()
    return (bool(shared) or a == b) and all(a[axis] == b[axis] for axis in shared)


def choose_levels(kernels: Sequence[WonKernel]) -> tuple[WonKernel, ...]:
    """The kernels that go into one build: where a block's kernel would take calls away from kernels within the block,
    whichever saves more time goes in, all other things stay.

    A kernel inside another's modules, for the same calls, would never be called.
    """
    chosen = list(kernels)
    for outer in sorted(kernels, key=lambda kernel: -kernel.saved_share):
        inner = [kernel for kernel in chosen if kernel is not outer and kernel.lies_within(outer)]
        if outer not in chosen or not inner:
            continue
        if outer.saved_share >= sum(kernel.saved_share for kernel in inner):
            chosen = [kernel for kernel in chosen if kernel not in inner]
        else:
            chosen.remove(outer)
    return tuple(kernel for kernel in kernels if kernel in chosen)


LEAST_KL, LEAST_LOGIT_NOISE = 1e-4, 1e-3
"""What is allowed to a build of a model that never differs from itself."""
NOISE_FACTOR = 2.0
"""And how much more than the model differs from itself."""
MOST_LOGPROB_DRIFT = 1e-3
MOST_MEMORY_RATIO = 2.0
"""Weights that are packed for kernels lie beside the model's own."""


def decide_build(end_to_end: EndToEnd) -> tuple[Gate, ...]:
    """The gates of a whole build against the model without it, and against the build that is live."""
    most_kl = max(LEAST_KL, NOISE_FACTOR * end_to_end.kl_noise)
    most_split = max(LEAST_LOGIT_NOISE, NOISE_FACTOR * end_to_end.logit_noise)
    return (
        Gate(
            name="faster end to end",
            figure=_spread(end_to_end.speedup, end_to_end.speedup_interval),
            bound="interval above 1.0",
            passed=end_to_end.speedup_interval.low > 1.0,
        ),
        Gate(
            name="decode not slower",
            figure=_spread(end_to_end.decode_speedup, end_to_end.decode_speedup_interval),
            bound="upper end of the interval at least 0.99",
            passed=end_to_end.decode_speedup_interval.high >= 0.99,
        ),
        Gate(
            name="time to first token not worse",
            figure=_spread(end_to_end.prefill_speedup, end_to_end.prefill_speedup_interval),
            bound="upper end of the interval at least 0.99",
            passed=end_to_end.prefill_speedup_interval.high >= 0.99,
        ),
        *_live_gate(end_to_end),
        Gate(
            name="peak memory",
            figure=_memory_ratio(end_to_end),
            bound=f"at most {MOST_MEMORY_RATIO:g} of eager's",
            passed=_memory_ratio(end_to_end) <= MOST_MEMORY_RATIO,
        ),
        Gate(
            name="KL divergence",
            figure=max(end_to_end.kl_divergence, end_to_end.kl_of_long),
            bound=f"< {most_kl:.1e} over >= 2000 positions, and behind a long context",
            passed=max(end_to_end.kl_divergence, end_to_end.kl_of_long) < most_kl and end_to_end.positions >= 2000,
        ),
        Gate(
            name="log probability of fixed prompts",
            figure=end_to_end.logprob_drift,
            bound=f"drift < {MOST_LOGPROB_DRIFT:g} nats",
            passed=end_to_end.logprob_drift < MOST_LOGPROB_DRIFT,
        ),
        Gate(
            name="rows owe nothing to rows beside them",
            figure=end_to_end.row_split_difference,
            bound=f"logits move <= {most_split:.1e} with the batch",
            passed=end_to_end.row_split_difference <= most_split,
        ),
        Gate(
            name="greedy agreement beyond noise",
            figure=end_to_end.greedy_agreement,
            bound="complete",
            passed=end_to_end.greedy_agreement == 1.0,
        ),
        Gate(
            name="every kernel was called",
            figure=float(min(end_to_end.hits.values(), default=0)),
            bound="> 0 hits each",
            passed=bool(end_to_end.hits) and min(end_to_end.hits.values()) > 0,
        ),
    )


def _live_gate(end_to_end: EndToEnd) -> tuple[Gate, ...]:
    """Of a build that would replace another."""
    if end_to_end.over_current is None:
        return ()
    low, high = end_to_end.over_current
    figure = f"{low:.3f} to {high:.3f}"
    return (Gate(name="faster than the live build", figure=figure, bound="interval above 1.0", passed=low > 1.0),)


def _spread(value: float, interval: Interval) -> str:
    return f"{value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _memory_ratio(end_to_end: EndToEnd) -> float:
    """Of the build's process to eager's."""
    bytes_of = end_to_end.peak_memory_bytes
    return bytes_of[PathName.BUILD] / bytes_of[PathName.EAGER]
