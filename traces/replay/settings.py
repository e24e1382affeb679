"""EngineSettings: how the modelled engine is configured, and what its users call good service."""

from typing import Literal, Self

from pydantic import Field, model_validator

from traces.record import TraceRecord

EngineName = Literal["vllm", "sglang"]


class EngineSettings(TraceRecord):
    name: EngineName = "vllm"
    """`vllm`: prefill and decode mix in one step. `sglang`: prefill runs alone, and first."""
    max_batched_tokens: int = Field(default=2048, gt=0)
    """Most tokens a step computes: vLLM's max_num_batched_tokens, SGLang's chunked_prefill_size."""
    max_sequences: int = Field(default=256, gt=0)
    """Most requests that run at once."""
    kv_capacity_tokens: int = Field(gt=0)
    """Tokens of keys and values that the device has room for."""
    ttft_limit_s: float = Field(default=2.0, gt=0)
    """A request counts for goodput if its first token came within this and the others within `tpot_limit_s` each on
    average. The defaults are those of MLPerf Inference's Llama-2-70B server scenario."""
    tpot_limit_s: float = Field(default=0.2, gt=0)

    @model_validator(mode="after")
    def _every_sequence_gets_its_token(self) -> Self:
        if self.max_sequences > self.max_batched_tokens:
            raise ValueError(
                f"max_sequences {self.max_sequences} above max_batched_tokens {self.max_batched_tokens}: "
                "a step could not decode one token for each"
            )
        return self
