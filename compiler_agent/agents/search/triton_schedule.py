"""TritonSchedule: the launch parameters of emitted Triton; every choice gives the same values up to rounding."""

from typing import Literal

from candidates.record import Record
from compiler_agent.agents.search.schedule import Algebra


class TritonSchedule(Record):
    """One point of the search space. Sizes of tiles are powers of 2, as tl.arange wants them."""

    sweep: Literal["whole", "blocks"] = "whole"
    """Of a row that is reduced. Whole: read once, kept in registers; blocks: read in every pass, any length."""
    rows: Literal[1, 2, 4, 8, 16] = 1
    """Rows per program of a map."""
    block: Literal[256, 512, 1024, 2048, 4096] = 1024
    """Columns per step of a map."""
    warps: Literal[1, 2, 4, 8] = 4
    """Of a map."""
    tile_rows: Literal[16, 32, 64, 128] = 64
    tile_columns: Literal[16, 32, 64, 128] = 64
    tile_depth: Literal[32, 64, 128] = 32
    """Of a step of a matrix product."""
    product_warps: Literal[2, 4, 8] = 4
    stages: Literal[1, 2, 3, 4] = 2
    """Steps of a product whose operands are on their way at once."""
    few_rows: Literal[0, 1, 4, 16] = 4
    """A product with so many rows or fewer multiplies and sums without matrix units; 0: none does."""
    few_columns: Literal[4, 8, 16, 32] = 16
    few_depth: Literal[64, 128, 256] = 128
    few_split: Literal[1, 2, 4, 8] = 1
    """Parts of the depth that such a product computes side by side and then adds."""
    algebra: Algebra = "as_written"


MAP_FIELDS = ("sweep", "rows", "block", "warps")
TILE_FIELDS = ("tile_rows", "tile_columns", "tile_depth", "product_warps", "stages")
FEW_FIELDS = ("few_rows", "few_columns", "few_depth", "few_split")
