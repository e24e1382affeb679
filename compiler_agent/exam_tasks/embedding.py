"""Rows of a table by token, scaled as some models scale their embedding."""

import math

import torch
from torch import nn

TOKENS, VOCABULARY, WIDTH = 64, 2048, 256


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCABULARY, WIDTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(tokens, self.table) * math.sqrt(WIDTH)


def get_inputs() -> list[torch.Tensor]:
    # The first is the last row, so that the range of tokens is the whole table whatever the others are.
    return [torch.cat((torch.tensor([VOCABULARY - 1]), torch.randint(0, VOCABULARY, (TOKENS - 1,))))]


def get_init_inputs() -> list[object]:
    return []
