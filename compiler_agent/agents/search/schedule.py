"""Schedule: how a program's loops are written down; every choice gives the same values up to rounding."""

from typing import Literal, TypeAlias

from candidates.record import Record

Algebra: TypeAlias = Literal["as_written", "exact", "reassociated", "shifted", "cancelling"]
"""Which of a program's forms, by the rounding that it may cost (`algebra.rewrites.Accuracy`)."""


class Schedule(Record):
    """One point of the search space; its fields are the candidate's launch parameters."""

    vector_width: Literal[8, 16] = 16
    """Float lanes of a vector."""
    unroll: Literal[1, 2, 4] = 2
    """Vectors per step of a sweep, and independent accumulators of a reduction."""
    reuse_from_cost: Literal[1, 4, 20] = 4
    """A value that a later pass over the row needs again is kept if it took at least so many operations."""
    parallel_from_operations: Literal[16_384, 65_536, 262_144] = 65_536
    """Stages with less work stay on one thread."""
    weights: Literal["panels", "rows"] = "panels"
    """Panels: repacked once so that lanes are output features; rows: read as they are, lanes run over the depth."""
    row_tile: Literal[2, 4, 6, 8] = 8
    """Rows of the left side per register tile."""
    column_tile: Literal[1, 2, 4] = 2
    """Panels: vectors of output features per register tile; rows: output features per register tile."""
    depth_unroll: Literal[1, 2, 4] = 2
    prefetch_bytes: Literal[0, 1024, 4096] = 0
    """How far ahead of the weights being used others are fetched; 0: left to the hardware."""
    algebra: Algebra = "as_written"
