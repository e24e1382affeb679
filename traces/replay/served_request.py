"""ServedRequest: one request on its way through the simulated engine, and when its tokens came."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True, eq=False)
class ServedRequest:
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    workload_class: int
    """Index into the replay's classes."""
    blocks: tuple[int, ...] = ()
    """Ids of the prompt's whole blocks."""

    first_token_s: float = 0.0
    finish_s: float = 0.0
    hit_tokens: int = 0
    """Prompt tokens found in the cache at the first admission."""

    computed_tokens: int = 0
    """Tokens whose keys and values are in the cache; of a decoding request, when it began to decode."""
    stored_blocks: int = 0
    emitted_tokens: int = 0
    """Output tokens; of a decoding request, when it began to decode."""
    decode_start: int = 0
    """Decode steps that the engine had done when this request joined them."""
    ticket: int = 0
    """Of its latest admission; 0 before the first. No two admissions of a replay share one."""

    @property
    def prefill_target(self) -> int:
        """Tokens to compute before the next output token: the prompt and, after a preemption, what was generated."""
        return self.prompt_tokens + self.emitted_tokens

    @property
    def tpot_s(self) -> float | None:
        """Seconds between output tokens; None where there is only one."""
        if self.output_tokens == 1:
            return None
        return (self.finish_s - self.first_token_s) / (self.output_tokens - 1)
