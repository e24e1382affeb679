"""Contest: one op at one number of rows, PyTorch against our probe: right first, then timed.

What is not right is not timed. Everything about a device goes through `Device`, so that a fake one can hold contests.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from candidates.benchmark.statistics import median, median_interval, median_ratio
from candidates.error_bound import allowed_error, row_scale
from candidates.task import ErrorBound
from compiler_agent.gpu_check.results import Cache, GpuCeilings, MeasuredOp, MissingOp
from compiler_agent.gpu_check.timing import Side, best_of, forms_of, run_rounds
from kernel_sandbox.runners.gpu_device import Device, DeviceFault

ROUNDS = 30
Outputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One way to compute the op; `call` leaves its results in what `outputs` gives."""

    name: str
    call: Callable[[], None]
    outputs: Callable[[], Outputs]
    launch: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    op: str
    rows: int
    dtype: torch.dtype
    moved_bytes: int
    """Every input read once, every output written once."""
    flops: int
    exact: Callable[[], Outputs]
    """float64, from the values of the inputs."""
    eager: Entrant
    compiled: Callable[[], Entrant]
    """May raise whatever a compiler raises."""
    ours: Sequence[Callable[[], Entrant]]
    """One for each set of launch parameters; may raise what a compiler raises."""


@dataclass(slots=True, kw_only=True)
class Held:
    """What came of a contest."""

    measured: list[MeasuredOp] = field(default_factory=list)
    missing: list[MissingOp] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def hold_contest(
    device: Device, contest: Contest, ceilings: GpuCeilings, rng: random.Random, deadline_s: float
) -> Held:
    """Raises DeviceFault, after which nothing on this device can be held in this process."""
    held = Held()

    def miss(why: str, detail: str) -> Held:
        held.missing.append(
            MissingOp.model_validate(
                {"op": contest.op, "rows": contest.rows, "dtype": _name(contest.dtype), "why": why, "detail": detail}
            )
        )
        return held

    if time.monotonic() > deadline_s:
        return miss("no_time_left", "the budget was spent before it began")
    exact = contest.exact()
    contest.eager.call()
    device.synchronise()
    bounds = own_bounds(contest.eager.outputs(), exact)
    compiled = _try(device, contest.compiled, held.notes, f"{contest.op} at {contest.rows} rows, torch.compile")
    ours: list[Entrant] = []
    reasons: list[str] = []
    for make in contest.ours:
        entrant = _try(device, make, reasons, "launch parameters left out")
        if entrant is None:
            continue
        if (error := worst_error(entrant.outputs(), exact, bounds, contest.dtype)) > 1:
            reasons.append(f"wrong with {dict(entrant.launch)}: {error:.3g} of the allowed error")
        else:
            ours.append(entrant)
    held.notes += reasons if ours else []
    if not ours:
        is_wrong = any(reason.startswith("wrong") for reason in reasons)
        return miss("wrong" if is_wrong else "failed", "; ".join(reasons)[:1000] or "no launch parameters")
    for cache in (Cache.COLD, Cache.WARM):
        held.measured.append(_measure(device, contest, compiled, ours, ceilings, cache, rng, deadline_s, held.notes))
    return held


def _measure(
    device: Device,
    contest: Contest,
    compiled: Entrant | None,
    ours: Sequence[Entrant],
    ceilings: GpuCeilings,
    cache: Cache,
    rng: random.Random,
    deadline_s: float,
    notes: list[str],
) -> MeasuredOp:
    launches: dict[Side, Mapping[str, int]] = {}

    def best(entrants: Sequence[Entrant]) -> Side:
        sides: list[Side] = []
        for entrant in entrants:
            forms, note = forms_of(device, entrant.name, entrant.call, cache)
            if note is not None and note not in notes:
                notes.append(note)
            launches.update(dict.fromkeys(forms, entrant.launch))
            sides += forms
        return best_of(device, sides, cache, rng)

    finalists = [best([contest.eager]), best(ours)]
    if compiled is not None:
        finalists.insert(1, best([compiled]))
    times = run_rounds(device, finalists, cache, rng, rounds=ROUNDS, deadline_s=deadline_s)
    us = [median(each) for each in times]
    best_baseline = min(range(len(finalists) - 1), key=us.__getitem__)
    ratios = [theirs / mine for theirs, mine in zip(times[best_baseline], times[-1], strict=True)]
    rate = ceilings.memory_bytes_per_s() if cache is Cache.COLD else ceilings.bytes_per_s(contest.moved_bytes)
    memory_us = 1e6 * contest.moved_bytes / rate
    matrix_rate = ceilings.flops_per_s.get(_name(contest.dtype))
    arithmetic_us = 1e6 * contest.flops / matrix_rate if matrix_rate else 0.0
    floor_us = max(memory_us, arithmetic_us)
    return MeasuredOp(
        op=contest.op,
        rows=contest.rows,
        dtype=_name(contest.dtype),
        cache=cache,
        eager_us=us[0],
        compile_us=us[1] if compiled is not None else None,
        ours_us=us[-1],
        forms={side.name: side.form for side in finalists},
        launch=dict(launches[finalists[-1]]),
        speedup_over_best=median_ratio(ratios),
        interval=median_interval(ratios),
        pairs=len(ratios),
        floor_us=floor_us,
        floor_by="arithmetic" if arithmetic_us > memory_us else "memory",
        share_of_floor=floor_us / us[-1],
    )


def _try(device: Device, make: Callable[[], Entrant], notes: list[str], what: str) -> Entrant | None:
    """An entrant that has run once, or None with a note."""
    try:
        entrant = make()
        entrant.call()
        device.synchronise()
    except DeviceFault:
        raise
    except Exception as error:  # noqa: BLE001  (compilers raise anything; the contest goes on without this entrant)
        notes.append(f"{what}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}")
        return None
    return entrant


def own_bounds(got: Outputs, exact: Outputs) -> list[ErrorBound]:
    """As tasks derive theirs: from the worst error of PyTorch's own op."""
    bounds = []
    for mine, right in zip(got, exact, strict=True):
        error = ((mine.double() - right).abs() / row_scale(right)).max()
        bounds.append(ErrorBound(scaled_error=float(error)))
    return bounds


def worst_error(got: Outputs, exact: Outputs, bounds: Sequence[ErrorBound], dtype: torch.dtype) -> float:
    """As a share of what is allowed; infinite where something is not finite, or of another shape."""
    worst = 0.0
    for mine, right, bound in zip(got, exact, bounds, strict=True):
        if mine.shape != right.shape or not bool(torch.isfinite(mine).all()):
            return float("inf")
        worst = max(worst, float(((mine.double() - right).abs() / allowed_error(bound, right, dtype)).max()))
    return worst


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
