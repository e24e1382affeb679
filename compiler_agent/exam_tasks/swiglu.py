"""The gate of a Llama MLP: SiLU of one projection times the other."""

import torch
from torch import nn

ROWS, WIDTH = 32, 1536


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(gate) * up


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)]


def get_init_inputs() -> list[object]:
    return []
