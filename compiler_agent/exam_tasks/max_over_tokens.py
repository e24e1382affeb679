"""The largest value of each channel over the tokens of a sequence: a reduction across rows in memory."""

import torch
from torch import nn

SEQUENCES, TOKENS, CHANNELS = 8, 96, 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.amax(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(SEQUENCES, TOKENS, CHANNELS)]


def get_init_inputs() -> list[object]:
    return []
