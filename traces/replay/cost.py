"""StepCostModel: the time of one engine step by roofline plus a fixed overhead. Pure: plain numbers in, seconds out.

A step multiplies each of its tokens with all weights, lets each token attend to its context, and moves the weights
once and each context once: time = max(operations / rate, bytes / bandwidth) + overhead.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCostModel:
    weight_bytes: float
    """Read once a step, however many tokens it has."""
    flops_per_token: float
    """Of the layers' matrices: twice the parameters that a token is multiplied with."""
    attention_flops_per_pair: float
    """Of one token attending to one token of its context, all layers: 4 * layers * query heads * head size."""
    kv_bytes_per_token: float
    """Keys and values of one token, all layers."""
    flops_per_s: float
    bandwidth_bytes_per_s: float
    overhead_s: float = 0.0
    """Of every step: scheduling, launches, sampling."""

    def __post_init__(self) -> None:
        for name in ("flops_per_s", "bandwidth_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("weight_bytes", "flops_per_token", "attention_flops_per_pair", "kv_bytes_per_token", "overhead_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if not self.step_seconds(1, 1, 1) > 0:
            raise ValueError("a step that takes no time: give weights, operations or an overhead")

    def seconds(self, prefill_tokens: int, prefill_context: int, decode_batch: int, decode_context_total: int) -> float:
        """A step that prefills `prefill_tokens` of one sequence after `prefill_context` tokens of its own, and decodes
        one token for each of `decode_batch` sequences that attend to `decode_context_total` tokens all together.
        """
        return self.step_seconds(
            prefill_tokens + decode_batch,
            prefill_pairs(prefill_tokens, prefill_context) + decode_context_total,
            (prefill_context + prefill_tokens if prefill_tokens else 0) + decode_context_total,
        )

    def step_seconds(self, tokens: int, attention_pairs: float, context_tokens: int) -> float:
        """A step of `tokens` in any mix: `attention_pairs` of a token with one it attends to, over `context_tokens`
        of keys and values read.
        """
        operations_s = (
            self.flops_per_token * tokens + self.attention_flops_per_pair * attention_pairs
        ) / self.flops_per_s
        transfer_s = (self.weight_bytes + self.kv_bytes_per_token * context_tokens) / self.bandwidth_bytes_per_s
        return max(operations_s, transfer_s) + self.overhead_s

    def decode_run_seconds(self, batch: int, context_total: int, steps: int) -> float:
        """`steps` decode steps of one batch; it attends to `context_total` tokens in the first, `batch` more in each
        further one. In closed form: both sides of the roofline grow linearly, so they cross at most once.
        """
        if steps <= 0:
            return 0.0
        operations_s = (self.flops_per_token * batch + self.attention_flops_per_pair * context_total) / self.flops_per_s
        transfer_s = (self.weight_bytes + self.kv_bytes_per_token * context_total) / self.bandwidth_bytes_per_s
        operations_growth_s = self.attention_flops_per_pair * batch / self.flops_per_s
        transfer_growth_s = self.kv_bytes_per_token * batch / self.bandwidth_bytes_per_s
        ahead_s = operations_s - transfer_s
        growth_s = operations_growth_s - transfer_growth_s
        if ahead_s * (ahead_s + growth_s * (steps - 1)) >= 0:
            if ahead_s > 0 or (ahead_s == 0 and growth_s > 0):
                busy_s = _sum_of_line(operations_s, operations_growth_s, steps)
            else:
                busy_s = _sum_of_line(transfer_s, transfer_growth_s, steps)
        else:
            before = int(-ahead_s / growth_s) + 1
            after = steps - before
            lines = [(operations_s, operations_growth_s), (transfer_s, transfer_growth_s)]
            if ahead_s < 0:
                lines.reverse()
            (first_s, first_growth_s), (second_s, second_growth_s) = lines
            busy_s = _sum_of_line(first_s, first_growth_s, before)
            busy_s += _sum_of_line(second_s + second_growth_s * before, second_growth_s, after)
        return busy_s + self.overhead_s * steps


def prefill_pairs(tokens: int, context: int) -> float:
    """Pairs of a new token with one it attends to: the context, the new ones before it, itself."""
    return tokens * context + tokens * (tokens + 1) / 2


def _sum_of_line(first: float, growth: float, steps: int) -> float:
    return steps * first + growth * (steps * (steps - 1) / 2)
