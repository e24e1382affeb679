"""Trial: one workload's calls in the arena: each case twice, over both poisons, every result slot between canaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from candidates.inputs import Distribution, draw_input, whole_allocation
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.judge.outputs import (
    Fault,
    bits,
    compare_results,
    find_unwritten,
    find_written_beyond,
    poison,
    result_specs,
)
from candidates.kernel_runner import Call
from candidates.reference import run_oracle
from candidates.task import InputRole, KernelTask, TensorSpec, Workload
from candidates.verdict import Reason
from kernel_sandbox.arena import CACHE_LINE_BYTES, PAGE_BYTES, Arena, Place, Segment, slot_bytes

MARGIN_BYTES = 64 << 10
"""Watched beyond the last slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSet:
    tensors: Mapping[str, torch.Tensor]
    exact: Mapping[str, torch.Tensor]
    """In float64, for the oracle."""
    places: Mapping[str, Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    distribution: Distribution
    parameter_set: int
    inputs: Mapping[str, torch.Tensor]
    exact: Mapping[str, torch.Tensor]
    results: tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]
    """Views into the arena of what the two calls leave, by poison."""


class Trial:
    """Fills the arena above what it holds already; `calls` are in random order."""

    def __init__(
        self,
        task: KernelTask,
        workload: Workload,
        distributions: Sequence[Distribution],
        parameter_sets: Sequence[ParameterSet],
        arena: Arena,
        rng: np.random.Generator,
        defences: Defences = ALL_DEFENCES,
        first_case: int = 0,
    ) -> None:
        """The cases take the parameter sets in turn; `first_case` is how many came before."""
        self.task = task
        self.workload = workload
        self._arena = arena
        self._rng = rng
        self._defences = defences
        self._canaries: list[npt.NDArray[np.uint8]] = []
        self._guarded_from = arena.used_bytes(Segment.OUTPUTS)
        end = self._guarded_from + (
            len(distributions) * case_bytes(task, workload, defences)[Segment.OUTPUTS] + MARGIN_BYTES
        )
        self._watched = arena.memory[Segment.OUTPUTS][:end]
        # Drawn, so that nobody who wrote there can write it back.
        self._canary = int(rng.integers(1, 256))
        self._watched[self._guarded_from :] = self._canary
        activations = task.inputs_of(InputRole.ACTIVATION)
        # In one call one activation ends where the memory does.
        self._at_end = activations[int(rng.integers(len(activations)))].name if activations else None
        if not {Defence.UNMAPPED_EDGE, Defence.READ_ONLY_INPUTS} <= defences:
            self._at_end = None
        self._same_inputs: Mapping[str, torch.Tensor] = {}
        calls: list[Call] = []
        self.cases = [
            self._lay_out(distribution, self._parameter_set(index, parameter_sets), parameter_sets, calls)
            for index, distribution in enumerate(distributions, start=first_case)
        ]
        self._canaries.append(self._watched[self._guarded_from :])
        self.calls = [calls[index] for index in rng.permutation(len(calls))]

    def find_fault(self) -> tuple[Distribution | None, Fault] | float:
        """The first fault with the case it is in (None: no single one), or the largest error in bounds.

        The runner must be frozen.
        """
        is_guarded = Defence.GUARD_BANDS in self._defences
        if is_guarded and not all(bool((canary == self._canary).all()) for canary in self._canaries):
            return None, Fault(
                reason=Reason.WROTE_OUT_OF_BOUNDS, message="memory beside an output or a state was overwritten"
            )
        worst = 0.0
        for case in self.cases:
            found = self._judge_case(case)
            if isinstance(found, Fault):
                return case.distribution, found
            worst = max(worst, found)
        return worst

    def snapshot(self) -> npt.NDArray[np.uint8]:
        """All that the calls left: `[bytes]`, a copy."""
        return self._watched.copy()

    def _judge_case(self, case: Case) -> Fault | float:
        first, second = case.results
        for spec in self.task.outputs:
            if unwritten := find_unwritten(spec, first[spec.name], second[spec.name]):
                return unwritten
        worst = 0.0
        for results in case.results:
            if Defence.GUARD_BANDS in self._defences and (
                written := find_written_beyond(self.task, self.workload, case.inputs, results)
            ):
                return written
            found = compare_results(self.task, case.inputs, case.exact, results, self._defences)
            if isinstance(found, Fault):
                return found
            worst = max(worst, found)
        if Defence.DETERMINISM not in self._defences:
            return worst
        for spec in result_specs(self.task):
            if not torch.equal(bits(first[spec.name]), bits(second[spec.name])):
                return Fault(
                    reason=Reason.NOT_DETERMINISTIC,
                    message=f"{spec.name} differs between two calls on equal inputs",
                )
        return worst

    def _lay_out(
        self,
        distribution: Distribution,
        parameter_set: int,
        parameter_sets: Sequence[ParameterSet],
        calls: list[Call],
    ) -> Case:
        parameters = parameter_sets[parameter_set]
        inputs = self._draw(distribution, parameters)
        exact = run_oracle(self.task, {**inputs, **parameters.exact})
        results: list[dict[str, torch.Tensor]] = []
        for pattern in (0, 1):
            places: list[Place] = []
            left: dict[str, torch.Tensor] = {}
            for spec in self.task.inputs:
                if spec.role is InputRole.PARAMETER:
                    places.append(parameters.places[spec.name])
                    continue
                if spec.name == self._at_end and not calls:
                    place = self._arena.place_at_end(Segment.INPUTS, spec.size_bytes(self.workload.axes))
                    view = view_of(self._arena, place, spec, self.workload.axes)
                else:
                    place, view = self._allocate(_segment(spec.role, self._defences), spec)
                whole_allocation(view, spec, self.workload.axes).copy_(
                    whole_allocation(inputs[spec.name], spec, self.workload.axes)
                )
                places.append(place)
                if spec.role is InputRole.STATE:
                    left[spec.name] = view
            for output in self.task.outputs:
                place, view = self._allocate(Segment.OUTPUTS, output)
                if Defence.POISON in self._defences:
                    poison(view, output.element_type, pattern)
                else:
                    view.copy_(exact[output.name])
                places.append(place)
                left[output.name] = view
            results.append(left)
            calls.append(Call(tensors=tuple(places), parameter_set=parameter_set))
        return Case(
            distribution=distribution,
            parameter_set=parameter_set,
            inputs=inputs,
            exact=exact,
            results=(results[0], results[1]),
        )

    def _draw(self, distribution: Distribution, parameters: ParameterSet) -> Mapping[str, torch.Tensor]:
        if self._same_inputs:
            return self._same_inputs
        inputs = {
            spec.name: parameters.tensors[spec.name]
            if spec.role is InputRole.PARAMETER
            else draw_input(spec, self.workload.axes, distribution, self._rng)
            for spec in self.task.inputs
        }
        if Defence.FRESH_CONTENT not in self._defences:
            self._same_inputs = inputs
        return inputs

    def _parameter_set(self, case: int, sets: Sequence[ParameterSet]) -> int:
        return case % len(sets) if Defence.FRESH_CONTENT in self._defences else 0

    def _allocate(self, segment: Segment, spec: TensorSpec) -> tuple[Place, torch.Tensor]:
        axes = self.workload.axes
        # Any cache line of a page: what holds for some alignments only must show.
        page_offset = CACHE_LINE_BYTES * int(self._rng.integers(PAGE_BYTES // CACHE_LINE_BYTES))
        if Defence.ANY_ALIGNMENT not in self._defences:
            page_offset = 0
        place = self._arena.allocate(segment, spec.size_bytes(axes), page_offset_bytes=page_offset)
        if segment is Segment.OUTPUTS:
            self._canaries.append(self._arena.memory[segment][self._guarded_from : place.offset_bytes])
            self._guarded_from = place.offset_bytes + spec.size_bytes(axes)
        return place, view_of(self._arena, place, spec, axes)


def place_parameters(task: KernelTask, arena: Arena, rng: np.random.Generator, sets: int) -> list[ParameterSet]:
    """Freshly drawn parameters, put into the inputs segment."""
    axes = task.workloads[0].axes
    placed = []
    for _ in range(sets):
        tensors: dict[str, torch.Tensor] = {}
        places: dict[str, Place] = {}
        for spec in task.inputs_of(InputRole.PARAMETER):
            tensors[spec.name] = draw_input(spec, axes, Distribution.NORMAL, rng)
            places[spec.name] = arena.allocate(Segment.INPUTS, spec.size_bytes(axes))
            view_of(arena, places[spec.name], spec, axes).copy_(tensors[spec.name])
        exact = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
        placed.append(ParameterSet(tensors=tensors, exact=exact, places=places))
    return placed


def view_of(arena: Arena, place: Place, spec: TensorSpec, axes: dict[str, int]) -> torch.Tensor:
    whole = arena.tensor(place, getattr(torch, spec.element_type.value), spec.allocated_sizes(axes), spec.strides(axes))
    return whole[tuple(map(slice, spec.sizes(axes)))]


def parameters_bytes(task: KernelTask, sets: int) -> int:
    """Arena bytes that `place_parameters` takes at most."""
    axes = task.workloads[0].axes
    return sets * sum(slot_bytes(spec.size_bytes(axes)) for spec in task.inputs_of(InputRole.PARAMETER))


def case_bytes(task: KernelTask, workload: Workload, defences: Defences = ALL_DEFENCES) -> dict[Segment, int]:
    """Arena bytes that one case takes at most: two calls."""
    sizes = dict.fromkeys(Segment, 0)
    for spec in (*task.inputs, *task.outputs):
        role = getattr(spec, "role", None)
        if role is InputRole.PARAMETER:
            continue
        sizes[_segment(role, defences)] += 2 * (slot_bytes(spec.size_bytes(workload.axes)) + PAGE_BYTES)
    return sizes


def _segment(role: InputRole | None, defences: Defences) -> Segment:
    """`role` is None for an output."""
    is_read_only = role is InputRole.ACTIVATION and Defence.READ_ONLY_INPUTS in defences
    return Segment.INPUTS if is_read_only else Segment.OUTPUTS
