"""ModelCall: one forward pass of the served model, and how often an hour of the replayed traffic makes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from traces.replay.step import EngineStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """`tokens` new tokens for each of `batch` sequences that have `context` tokens in their caches already."""

    batch: int
    tokens: int
    context: int

    @property
    def is_decode(self) -> bool:
        return self.tokens == 1

    @property
    def tokens_read(self) -> int:
        """Length of the keys that attention sees."""
        return self.context + self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRate:
    """How often something happens in an hour of the replayed traffic, in all and for each workload class."""

    per_hour: float = 0.0
    per_hour_by_class: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: "CallRate") -> "CallRate":
        classes = {**self.per_hour_by_class, **other.per_hour_by_class}
        return CallRate(
            per_hour=self.per_hour + other.per_hour,
            per_hour_by_class={
                name: self.per_hour_by_class.get(name, 0.0) + other.per_hour_by_class.get(name, 0.0) for name in classes
            },
        )

    def __mul__(self, times: float) -> "CallRate":
        return CallRate(
            per_hour=self.per_hour * times,
            per_hour_by_class={name: rate * times for name, rate in self.per_hour_by_class.items()},
        )


def model_calls(steps: Sequence[EngineStep], span_s: float) -> dict[ModelCall, CallRate]:
    """The forward passes that `steps` make, each with its rate; `span_s` is the time that the replay covers.

    A served model without a ragged batch runs a step that mixes prefill and decode as two passes: one prefill of
    `[1, prefill_tokens]` and one decode of `[decode_batch, 1]`. Raises ValueError for a span that is not positive.
    """
    if span_s <= 0:
        raise ValueError(f"the replay covers {span_s} s; its span must be positive")
    rates: dict[ModelCall, CallRate] = {}
    for step in steps:
        per_hour = step.count * 3600.0 / span_s
        shares = {name: share * per_hour for name, share in step.share_by_class.items()}
        rate = CallRate(per_hour=per_hour, per_hour_by_class=shares)
        for call in _passes(step):
            rates[call] = rates.get(call, CallRate()) + rate
    return rates


def _passes(step: EngineStep) -> list[ModelCall]:
    passes = []
    if step.prefill_tokens:
        passes.append(ModelCall(batch=1, tokens=step.prefill_tokens, context=step.prefill_context))
    if step.decode_batch:
        passes.append(ModelCall(batch=step.decode_batch, tokens=1, context=step.decode_context))
    return passes
