"""Leaf ops of a Llama of hidden size 4096 as `transformers` runs them, captured as sites of a model that holds them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb

from traces.capture import observe_tensor
from traces.model_calls import CallRate, ModelCall
from traces.sites import CapturedSite, OpSite, SiteCall, SiteKind

HIDDEN, HEADS = 4096, 32
DECODE_ROWS, PREFILL_ROWS = (1, 8, 32), (512, 2048)
_UNSEEN = {
    True: (ModelCall(batch=2, tokens=3, context=7), ModelCall(batch=5, tokens=1, context=11)),
    False: (ModelCall(batch=3, tokens=5, context=7), ModelCall(batch=1, tokens=333, context=0)),
}
"""Calls of no traffic, by whether the others are decode: they show which dims vary, and are judged."""
_SPAN_CALLS = 1e6

Shape = tuple[int, ...]


class ResidualNorm(nn.Module):
    """Of LlamaDecoderLayer: the sum behind the attention, and the norm of it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.post_attention_layernorm = LlamaRMSNorm(HIDDEN, eps=1e-5).to(dtype)

    def forward(self, hidden_states: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden_states = residual + hidden_states
        return hidden_states, self.post_attention_layernorm(hidden_states)


class GatedUnit(nn.Module):
    """Of LlamaMLP: what lies between its linear layers."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.act_fn = ACT2FN["silu"]

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return self.act_fn(gate) * up


class AttentionShares(nn.Module):
    """Of eager_attention_forward: the softmax, in float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()

    def forward(self, attn_weights: torch.Tensor) -> torch.Tensor:
        return nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(attn_weights.dtype)


def _linear(dtype: torch.dtype) -> nn.Module:
    return nn.Linear(HIDDEN, HIDDEN, bias=False, dtype=dtype)


def _layer_norm(dtype: torch.dtype) -> nn.Module:
    return nn.LayerNorm(HIDDEN, dtype=dtype)


class GeluGate(nn.Module):
    """Of Gemma2MLP."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.act_fn = ACT2FN["gelu_pytorch_tanh"]

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return self.act_fn(gate) * up


class MaskedShares(nn.Module):
    """Of eager_attention_forward: scores scaled, a mask added, the softmax."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return nn.functional.softmax(scores * 0.125 + mask, dim=-1, dtype=torch.float32).to(scores.dtype)


class ScaledResidual(nn.Module):
    """Of GraniteDecoderLayer."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()

    def forward(self, hidden_states: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual + hidden_states * 0.22


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafOp:
    arguments: tuple[str, ...]
    make: Callable[[torch.dtype], nn.Module] | None = None
    """None: it is the function `apply_rotary_pos_emb`."""


FUSED: Mapping[str, LeafOp] = {
    "rmsnorm_residual": LeafOp(arguments=("hidden_states", "residual"), make=ResidualNorm),
    "rope": LeafOp(arguments=("q", "k", "cos", "sin")),
    "swiglu": LeafOp(arguments=("gate", "up"), make=GatedUnit),
    "softmax": LeafOp(arguments=("attn_weights",), make=AttentionShares),
}
OTHERS: Mapping[str, LeafOp] = {
    "layernorm": LeafOp(arguments=("input",), make=_layer_norm),
    "gelu_gate": LeafOp(arguments=("gate", "up"), make=GeluGate),
    "masked_softmax": LeafOp(arguments=("scores", "mask"), make=MaskedShares),
    "scaled_residual": LeafOp(arguments=("hidden_states", "residual"), make=ScaledResidual),
}
"""Of other models, and of the same classes: what a search finds for ops that nobody had in mind."""
LEAF_OPS = {**FUSED, "linear": LeafOp(arguments=("input",), make=_linear), **OTHERS}


def capture_leaf_op(name: str, dtype: torch.dtype, rows: Sequence[int]) -> tuple[nn.Module, CapturedSite]:
    """The model, and the site in it with calls of so many rows: all of decode or all of prefill.

    Every size gets about an equal share of the traffic's time: calls are as rare as they are long.
    """
    is_decode = max(rows) <= max(DECODE_ROWS)
    rates = {
        ModelCall(batch=each if is_decode else 1, tokens=1 if is_decode else each, context=0): _SPAN_CALLS / each
        for each in rows
    } | dict.fromkeys(_UNSEEN[is_decode], 0.0)
    op = LEAF_OPS[name]
    model = nn.Module()
    if op.make is None:
        function = f"{apply_rotary_pos_emb.__module__}.{apply_rotary_pos_emb.__name__}"
        site = OpSite(op=name, kind=SiteKind.FUNCTION, level="leaf", pattern=name, module_paths=(), function=function)
    else:
        model.add_module(name, op.make(dtype))
        site = OpSite(op=name, kind=SiteKind.MODULE, level="leaf", pattern=name, module_paths=(name,))
    calls = tuple(_call(op, call, rate, dtype) for call, rate in rates.items())
    return model, CapturedSite(site=site, calls=calls)


def _call(op: LeafOp, call: ModelCall, per_hour: float, dtype: torch.dtype) -> SiteCall:
    tensors = [torch.empty(call.batch, call.tokens, HIDDEN, dtype=dtype, device="meta") for _ in op.arguments]
    if op.make is None:
        states, angles = tensors[:2], (call.batch, call.tokens, HIDDEN // HEADS)
        tensors = [state.view(call.batch, call.tokens, HEADS, -1).transpose(1, 2) for state in states]
        tensors += [torch.empty(angles, dtype=dtype, device="meta") for _ in ("cos", "sin")]
    return SiteCall(
        tensors=tuple(map(observe_tensor, op.arguments, tensors)),
        calls_per_hour=per_hour,
        sources={call: CallRate(per_hour=per_hour)},
    )
