"""Whether the tensors that a kernel left are right: every element against the float64 oracle, within the task's bound.

Poison is what output slots hold before a call; both patterns are NaNs for floats, so that what was not written cannot
look right.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from candidates.error_bound import SPREAD, allowed_error, find_errors_nearby, is_small
from candidates.inputs import whole_allocation
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.reference import run_oracle
from candidates.task import ElementType, InputRole, KernelTask, TensorSpec, Workload
from candidates.verdict import Evidence, Reason, Rejected, WorstElement

# One quiet NaN of either sign with a payload that no arithmetic makes; for integers two numbers.
_POISON: dict[ElementType, tuple[int, int]] = {
    ElementType.FLOAT32: (0x7FC5A5A5, 0xFFDA5A5A),
    ElementType.BFLOAT16: (0x7FE5, 0xFFDA),
    ElementType.FLOAT16: (0x7EA5, 0xFF5A),
    ElementType.INT64: (0x5A5A5A5A5A5A5A5A, 0xA5A5A5A5A5A5A5A5),
    ElementType.INT32: (0x5A5A5A5A, 0xA5A5A5A5),
    ElementType.BOOL: (0x5A, 0xA5),
}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with the results of one call."""

    reason: Reason
    message: str
    worst: WorstElement | None = None
    share_of_elements_wrong: float | None = None


def check_outputs(
    task: KernelTask,
    workload: Workload,
    inputs: Mapping[str, torch.Tensor],
    got: Mapping[str, torch.Tensor],
    *,
    seed: int,
    distribution: str | None = None,
) -> Rejected | float:
    """The verdict on one call's results, or the largest error seen as a share of its bound (0 to 1).

    `inputs` by name as they were before the call, states included; `got` by name: outputs, then states. Of a state
    both are views of all that is allocated for it.
    """
    found = find_written_beyond(task, workload, inputs, got) or compare_results(
        task, inputs, run_oracle(task, inputs), got
    )
    return rejected(workload, found, seed=seed, distribution=distribution) if isinstance(found, Fault) else found


def rejected(
    workload: Workload, fault: Fault, *, seed: int, distribution: str | None = None, log_tail: str = ""
) -> Rejected:
    """Of a hidden workload neither shape nor values nor what the kernel printed is told.

    Nor the share of its elements that are wrong: a kernel that spoils a single one would learn how many there are.
    """
    if workload.is_hidden:
        evidence = Evidence(message=f"{fault.reason.value} on a shape that is not shown", distribution=distribution)
        return Rejected(reason=fault.reason, workload="hidden", evidence=evidence, seed=seed)
    evidence = Evidence(
        message=fault.message,
        distribution=distribution,
        worst=fault.worst,
        share_of_elements_wrong=fault.share_of_elements_wrong,
        log_tail=log_tail,
    )
    return Rejected(reason=fault.reason, workload=workload.name, evidence=evidence, seed=seed)


def compare_results(
    task: KernelTask,
    inputs: Mapping[str, torch.Tensor],
    exact: Mapping[str, torch.Tensor],
    got: Mapping[str, torch.Tensor],
    defences: Defences = ALL_DEFENCES,
) -> Fault | float:
    """The first fault in the order of the specs, or the largest error in bounds. `exact`: `run_oracle` of `inputs`."""
    worst_share = 0.0
    for spec in result_specs(task):
        found = _compare(task, spec, inputs, exact[spec.name], got[spec.name], defences)
        if isinstance(found, Fault):
            return found
        worst_share = max(worst_share, found)
    return worst_share


def result_specs(task: KernelTask) -> tuple[TensorSpec, ...]:
    """What a call leaves: outputs, then states."""
    return (*task.outputs, *task.inputs_of(InputRole.STATE))


def find_written_beyond(
    task: KernelTask, workload: Workload, inputs: Mapping[str, torch.Tensor], got: Mapping[str, torch.Tensor]
) -> Fault | None:
    """Memory that is allocated for a state, not part of it, and changed by the call."""
    for spec in task.inputs_of(InputRole.STATE):
        if spec.allocated is None:
            continue
        before, after = (whole_allocation(each[spec.name], spec, workload.axes) for each in (inputs, got))
        changed = bits(before) != bits(after)
        changed[tuple(slice(size) for size in spec.sizes(workload.axes))] = False
        if bool(changed.any()):
            where = list(_first_index(changed))
            message = f"memory that is reserved for {spec.name} beyond its end was overwritten, the first at {where}"
            return Fault(reason=Reason.WROTE_OUT_OF_BOUNDS, message=message)
    return None


def poison(tensor: torch.Tensor, element_type: ElementType, pattern: int) -> None:
    """Fills with pattern 0 or 1."""
    bits(tensor).fill_(_poison_bits(element_type, pattern))


def is_poison(tensor: torch.Tensor, element_type: ElementType, pattern: int) -> torch.Tensor:
    """Which elements hold pattern 0 or 1; an integer may hold it rightly, a float cannot."""
    return bits(tensor) == _poison_bits(element_type, pattern)


def find_unwritten(spec: TensorSpec, first: torch.Tensor, second: torch.Tensor) -> Fault | None:
    """Elements that kept poison 0 in one call and poison 1 in the other on equal inputs."""
    kept = is_poison(first, spec.element_type, 0) & is_poison(second, spec.element_type, 1)
    return _not_written(spec, kept) if bool(kept.any()) else None


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers of the element's size."""
    return tensor.view(_BITS[tensor.element_size()])


def _poison_bits(element_type: ElementType, pattern: int) -> int:
    unsigned = _POISON[element_type][pattern]
    if element_type.size_bytes == 1:
        return unsigned
    width = 8 * element_type.size_bytes
    return unsigned - (1 << width) if unsigned >> (width - 1) else unsigned


def _not_written(spec: TensorSpec, kept: torch.Tensor) -> Fault:
    share = float(kept.double().mean())
    index = _first_index(kept)
    return Fault(
        reason=Reason.OUTPUT_NOT_WRITTEN,
        message=f"{share:.2%} of the elements of {spec.name} were not written, the first at {list(index)}",
        share_of_elements_wrong=share,
    )


def _compare(
    task: KernelTask,
    spec: TensorSpec,
    inputs: Mapping[str, torch.Tensor],
    exact: torch.Tensor,
    got: torch.Tensor,
    defences: Defences,
) -> Fault | float:
    if not exact.is_floating_point():
        return _compare_integers(spec, exact, got)
    kept = is_poison(got, spec.element_type, 0) | is_poison(got, spec.element_type, 1)
    if bool(kept.any()):
        return _not_written(spec, kept)
    value = got.double()
    finite = torch.isfinite(value)
    if not bool(finite.all()) or not bool(torch.isfinite(exact).all()):
        # What overflows the output's type is infinite there.
        expected = exact.to(got.dtype).double()
        same = (finite == torch.isfinite(expected)) & (
            finite | (value == expected) | (value.isnan() & expected.isnan())
        )
        if Defence.NON_FINITE not in defences:
            same[:] = True
        if not bool(same.all()):
            return _wrong(spec, Reason.WRONG_NON_FINITE, ~same, _first_index(~same), expected, value, None)
        value, exact = torch.where(finite, value, 0.0), torch.where(finite, exact, 0.0)
    if spec.allocated is not None:
        # It grows in place, and the rows that the op leaves are nobody's to round.
        before = inputs[spec.name]
        is_left = (before.double() == exact).all(dim=-1, keepdim=True)
        changed = is_left & (bits(before) != bits(got))
        if bool(changed.any()):
            return _wrong(spec, Reason.WRONG_VALUES, changed, _first_index(changed), exact, value, None)
    bound, error = task.error_bound, (value - exact).abs_()
    allowed = allowed_error(bound, exact, got.dtype)
    if Defence.DERIVED_BOUND not in defences:
        allowed = 1e-2 + 1e-2 * exact.abs()
    elif bool((error > allowed).any()) and bool(((error <= SPREAD * allowed) | is_small(bound, exact)).all()):
        # Dear, and so only where all depends on it.
        allowed = allowed_error(bound, exact, got.dtype, find_errors_nearby(task, inputs)[spec.name])
    shares = error.div_(allowed)
    if Defence.EVERY_ELEMENT not in defences and float((shares > 1.0).double().mean()) <= 0.05:
        shares.clamp_(max=1.0)
    worst = float(shares.max())
    if worst > 1.0:
        index = tuple(int(part) for part in np.unravel_index(int(shares.argmax()), shares.shape))
        return _wrong(spec, Reason.WRONG_VALUES, shares > 1.0, index, exact, value, allowed)
    return worst


def _compare_integers(spec: TensorSpec, exact: torch.Tensor, got: torch.Tensor) -> Fault | float:
    # A bool is compared by its byte: 2 is not True.
    wrong = bits(got).to(torch.int64) != exact.to(torch.int64)
    if bool(wrong.any()):
        value = bits(got)
        return _wrong(spec, Reason.WRONG_VALUES, wrong, _first_index(wrong), exact, value, None)
    return 0.0


def _wrong(
    spec: TensorSpec,
    reason: Reason,
    wrong: torch.Tensor,
    index: tuple[int, ...],
    exact: torch.Tensor,
    got: torch.Tensor,
    allowed: torch.Tensor | None,
) -> Fault:
    share = float(wrong.double().mean())
    limit = float(allowed.expand_as(exact)[index]) if allowed is not None else 0.0
    expected_text, got_text = f"{exact[index].item():.9g}", f"{got[index].item():.9g}"
    return Fault(
        reason=reason,
        message=(
            f"{spec.name}{list(index)} is {got_text}, should be {expected_text} within {limit:.3g}; "
            f"{share:.2%} of its elements are wrong"
        ),
        worst=WorstElement(output=spec.name, index=index, expected=expected_text, got=got_text, bound=f"{limit:.3g}"),
        share_of_elements_wrong=share,
    )


def _first_index(mask: torch.Tensor) -> tuple[int, ...]:
    position = int(mask.to(torch.uint8).argmax())
    return tuple(int(part) for part in np.unravel_index(position, mask.shape))
