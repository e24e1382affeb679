"""EngineStep: what a serving engine runs in one forward pass, with how often the replay saw it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """A bucket of alike steps, represented by its time-weighted mean.

    A step prefills `prefill_tokens` new tokens of one sequence on top of `prefill_context` tokens already in its cache
    (0 tokens: no prefill), and decodes one token for each of `decode_batch` sequences at a mean context of
    `decode_context` tokens (0 sequences: no decode).
    """

    prefill_tokens: int
    prefill_context: int
    decode_batch: int
    decode_context: int
    count: float
    """Steps of this kind in the replay."""
    duration_s: float
    """Modelled time of all of them together."""
    share_by_class: dict[str, float] = field(default_factory=dict)
    """Share of the bucket's tokens that each workload class asked for; sums to 1."""
