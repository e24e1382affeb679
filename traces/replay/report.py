"""ReplayReport: what `replay --json` says about a replay, apart from its steps."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from pydantic import Field

from traces.record import TraceRecord
from traces.replay.settings import EngineSettings


class RequestCounts(TraceRecord):
    """read = kept + the sum of dropped, always."""

    read: int = Field(ge=0)
    kept: int = Field(ge=0)
    """Replayed. Truncated ones are among them."""
    dropped: dict[str, int]
    """By reason; `beyond_limit`: the user asked for fewer."""
    truncated: int = Field(ge=0)
    """Cut to the model's window."""


class Distribution(TraceRecord):
    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self:
        """Of at least one sample. Percentiles interpolate linearly."""
        p50, p90, p99 = np.percentile(samples, (50, 90, 99))
        return cls(mean=float(np.mean(samples)), p50=float(p50), p90=float(p90), p99=float(p99))


class ReplayReport(TraceRecord):
    engine: EngineSettings
    """With the limits that goodput is counted by."""
    max_context_tokens: int
    requests: RequestCounts
    prefix_hit_rate: float = Field(ge=0, le=1)
    """Share of prompt tokens found in the cache at a request's first admission."""
    has_prefix_identity: bool
    """Whether the trace says which prompts share a prefix; else the hit rate is 0 for want of knowledge."""
    ttft_s: Distribution
    """From arrival to the first token."""
    tpot_s: Distribution | None
    """Between output tokens, of requests with more than one; None where there are none."""
    latency_s: Distribution
    """From arrival to the last token."""
    throughput_tokens_per_s: float
    """Output tokens over the span."""
    goodput_tokens_per_s: float
    """Those of requests within the engine's TTFT and TPOT limits."""
    preemptions: int
    steps: int
    distinct_steps: int
    """Kinds of steps that the replay told apart, powers of two of batch, tokens and context."""
    wall_s: float
    """Of the replay itself, the search for the arrival scale included."""
    utilisation: float
    """Share of the span that the modelled device is busy."""
    arrival_scale: float
    """Factor on the trace's arrival times."""
    span_s: float
    """From the first arrival to the last token, scaled: calls an hour are counts / span * 3600."""
