"""A linear layer of a decode step: few rows, so that reading the weights is what takes time."""

import torch
from torch import nn

ROWS, INPUTS, OUTPUTS = 4, 576, 1536


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(OUTPUTS, INPUTS) * 0.04)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, INPUTS)]


def get_init_inputs() -> list[object]:
    return []
