"""Rotary position embedding of all heads, in the halves convention of Llama."""

import torch
from torch import nn

TOKENS, HEADS, WIDTH = 64, 9, 64


class Model(nn.Module):
    def forward(self, query: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        first, second = query[..., : WIDTH // 2], query[..., WIDTH // 2 :]
        turned = torch.cat((-second, first), dim=-1)
        return query * cosine + turned * sine


def get_inputs() -> list[torch.Tensor]:
    angles = torch.rand(TOKENS, 1, WIDTH) * 6.28
    return [torch.randn(TOKENS, HEADS, WIDTH), angles.cos(), angles.sin()]


def get_init_inputs() -> list[object]:
    return []
