"""Defences of the judge and the benchmark by name, so that a test can switch one off and show what it keeps out.

Only tests pass anything but ALL_DEFENCES.
"""

from enum import StrEnum


class Defence(StrEnum):
    """What each one does, and where it is not plain, what its absence looks like."""

    POISON = "poison"
    """Output slots hold NaNs before a call. Off: they hold the right result, as freed memory of a reference would."""
    GUARD_BANDS = "guard_bands"
    """Memory beside outputs and states is watched."""
    READ_ONLY_INPUTS = "read_only_inputs"
    """Inputs cannot be written. Off: activations lie where outputs do."""
    UNMAPPED_EDGE = "unmapped_edge"
    """In one call an activation ends where the mapped memory does."""
    ANY_ALIGNMENT = "any_alignment"
    """Tensors begin at any cache line. Off: always at a page."""
    FRESH_CONTENT = "fresh_content"
    """Every case has its own values. Off: all calls of a workload have the same."""
    PARAMETER_SETS = "parameter_sets"
    """Two sets of parameters. Off: one."""
    DISTRIBUTIONS = "distributions"
    """Activations of several kinds. Off: normal ones only."""
    HIDDEN_SHAPES = "hidden_shapes"
    """Workloads that authors do not see."""
    DERIVED_BOUND = "derived_bound"
    """The task's own error bound. Off: 1e-2, absolute and relative."""
    EVERY_ELEMENT = "every_element"
    """One wrong element is too many. Off: 95 % suffice."""
    NON_FINITE = "non_finite"
    """NaN and infinity only where the oracle has them. Off: they match everything."""
    FREEZE = "freeze"
    """The runner stands still before its outputs are read. Off: it goes on while we look for it to finish."""
    UNCHANGED_AFTER_RETURN = "unchanged_after_return"
    """Outputs are looked at again after the runner could go on."""
    DETERMINISM = "determinism"
    """Two calls on equal inputs leave equal bits."""
    SYSTEM_CALL_FILTER = "system_call_filter"
    """The runner's own filter; the sandbox's stays."""
    FLOAT_STATE = "float_state"
    """Rounding mode and flush-to-zero are after a call what they were before."""
    SHIPPED_CODE = "shipped_code"
    """The compiled object brings only what a serving process may run."""
    SANITIZERS = "sanitizers"
    """Address and undefined-behaviour sanitizers, before a win is final."""
    TIMED_CALLS_CHECKED = "timed_calls_checked"
    """What is timed is checked."""
    FRESH_TIMED_CONTENT = "fresh_timed_content"
    """Every batch has values of its own. Off: all batches have the same."""
    BELIEVED_HANDSHAKE = "believed_handshake"
    """A candidate's own null batch counts for no more than that of a process without a kernel."""
    FLOOR = "floor"
    """A time below what the device can do is no time."""
    SINGLE_CALLS = "single_calls"
    """A win in batches must be one in single calls."""


Defences = frozenset[Defence]
ALL_DEFENCES: Defences = frozenset(Defence)
