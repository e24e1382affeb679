"""Slots: the calls of one workload laid out in the arena, given fresh content and poisoned outputs before every sample.

Both sides of a race use the same slots, so that both see the same physical pages.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from candidates.inputs import Distribution, draw_input
from candidates.judge.outputs import bits, poison
from candidates.kernel_runner import Call
from candidates.task import ElementType, InputRole, InputSpec, KernelTask, TensorSpec, Workload
from kernel_sandbox.arena import CACHE_LINE_BYTES, Arena, Place, Segment, slot_bytes

Bytes = npt.NDArray[np.uint8]

_POOL_BYTES = 4 << 20

_LOOSE_BITS = {
    ElementType.FLOAT32: (np.uint32, 0x807FFFFF),
    ElementType.BFLOAT16: (np.uint16, 0x807F),
    ElementType.FLOAT16: (np.uint16, 0x83FF),
    ElementType.INT64: (np.uint64, 1),
    ElementType.INT32: (np.uint32, 1),
    ElementType.BOOL: (np.uint8, 1),
}
"""What may differ at random: sign and mantissa of a float, 0 or 1 for the rest."""


class ContentPool:
    """Random content drawn once, from which slots are refilled: about as fast as copying.

    It is mixed with random bits that are drawn once too, each at a random offset: a kernel that learned all content,
    and had its results ready, would meet none of it again.
    """

    def __init__(self, rng: np.random.Generator, *, is_fresh: bool = True) -> None:
        """Without `is_fresh` it fills with the same content every time."""
        self._rng = rng
        self._is_fresh = is_fresh
        self._pools: dict[ElementType, tuple[Bytes, Bytes]] = {}

    def draw(self, count: int) -> int:
        """One of `range(count)`."""
        return int(self._rng.integers(count))

    def fill(self, target: Bytes, element_type: ElementType, below: int | None = None) -> None:
        """Normal floats; booleans are 0 or 1, and so are integers unless `below` says how far they go."""
        if below is not None:
            rng = self._rng if self._is_fresh else np.random.default_rng(0)
            integers = target.view(_LOOSE_BITS[element_type][0])
            integers[:] = rng.integers(0, below, len(integers))
            return
        largest = _POOL_BYTES // 2
        for start in range(0, len(target), largest):
            part = target[start : start + largest]
            room = _POOL_BYTES - len(part) if self._is_fresh else 0
            offsets = self._rng.integers(0, room + 1, 2) // CACHE_LINE_BYTES * CACHE_LINE_BYTES
            content, bits = (
                pool[offset : offset + len(part)]
                for pool, offset in zip(self._pool(element_type), offsets, strict=True)
            )
            np.bitwise_xor(content, bits, out=part)

    def _pool(self, element_type: ElementType) -> tuple[Bytes, Bytes]:
        if element_type not in self._pools:
            spec = InputSpec(
                name="pool",
                element_type=element_type,
                shape=(_POOL_BYTES // element_type.size_bytes,),
                dim_order=(0,),
                role=InputRole.ACTIVATION,
            )
            word, loose_bits = _LOOSE_BITS[element_type]
            bits = np.frombuffer(self._rng.bytes(_POOL_BYTES), dtype=word) & word(loose_bits)
            self._pools[element_type] = (
                bytes_of(draw_input(spec, {}, Distribution.NORMAL, self._rng)),
                bits.view(np.uint8),
            )
        return self._pools[element_type]


def bytes_of(tensor: torch.Tensor) -> Bytes:
    """The memory of a dense tensor, in memory order, shared with it."""
    flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
    view: Bytes = flat.numpy()
    return view


def call_bytes(task: KernelTask, workload: Workload) -> int:
    """Arena bytes that one call takes beside its parameters, in both segments together."""
    specs: list[TensorSpec] = [spec for spec in task.inputs if spec.role is not InputRole.PARAMETER]
    return sum(slot_bytes(spec.size_bytes(workload.axes)) for spec in (*specs, *task.outputs))


class PlacedParameters:
    """One set of parameters: where it lies in the arena (in task order), and what it is."""

    def __init__(self, places: tuple[Place, ...], tensors: Mapping[str, torch.Tensor]) -> None:
        self.places = places
        self._tensors = tensors

    @functools.cached_property
    def exact(self) -> dict[str, torch.Tensor]:
        """In float64, for the oracle: converted once, not at every call that is checked."""
        return {
            name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in self._tensors.items()
        }


def place_parameters(
    task: KernelTask, arena: Arena, sets: Sequence[Mapping[str, torch.Tensor]]
) -> list[PlacedParameters]:
    """Copies sets of parameters into the arena."""
    axes = task.workloads[0].axes
    placed = []
    for parameters in sets:
        places = []
        for spec in task.inputs_of(InputRole.PARAMETER):
            place = arena.allocate(Segment.INPUTS, spec.size_bytes(axes))
            arena.bytes_at(place, spec.size_bytes(axes))[:] = bytes_of(parameters[spec.name])
            places.append(place)
        placed.append(PlacedParameters(tuple(places), parameters))
    return placed


@dataclass(frozen=True, slots=True)
class _Column:
    """One input or output of every call, side by side with guards between them."""

    memory: Bytes
    rows: torch.Tensor
    """`[calls, elements]`, the same memory without the guards."""
    element_type: ElementType
    below: int | None


class Slots:
    """`count` calls of a workload; every activation, state and output of every call has its own place.

    `parameter_sets` are rotated over the calls. Closing gives the room back; slots are closed in reverse order.
    """

    def __init__(
        self, task: KernelTask, workload: Workload, count: int, arena: Arena, parameter_sets: Sequence[PlacedParameters]
    ) -> None:
        self.task = task
        self.workload = workload
        self._arena = arena
        self._used_before = {segment: arena.used_bytes(segment) for segment in Segment}
        self._contents: list[_Column] = []
        self._states: dict[str, _Column] = {}
        self._first_offsets: dict[str, int] = {}
        self._states_before: dict[str, Bytes] = {}
        self._outputs: list[_Column] = []
        self._pattern = 0
        columns: list[list[Place]] = []
        self._parameter_sets = parameter_sets
        parameter_columns = iter(zip(*(parameters.places for parameters in parameter_sets), strict=True))
        for spec in (*task.inputs, *task.outputs):
            if isinstance(spec, InputSpec) and spec.role is InputRole.PARAMETER:
                places = next(parameter_columns)
                columns.append([places[i % len(places)] for i in range(count)])
                continue
            is_activation = isinstance(spec, InputSpec) and spec.role is InputRole.ACTIVATION
            segment = Segment.INPUTS if is_activation else Segment.OUTPUTS
            columns.append([arena.allocate(segment, spec.size_bytes(workload.axes)) for _ in range(count)])
            column = _column(spec, workload, arena, columns[-1])
            (self._contents if isinstance(spec, InputSpec) else self._outputs).append(column)
            if isinstance(spec, InputSpec) and spec.role is InputRole.STATE:
                self._states[spec.name] = column
                self._first_offsets[spec.name] = columns[-1][0].offset_bytes
        self.calls = tuple(
            Call(tensors=tensors, parameter_set=i % max(len(parameter_sets), 1))
            for i, tensors in enumerate(zip(*columns, strict=True))
        )

    def refresh(self, pool: ContentPool) -> None:
        """Fresh activations and states, poison of one of the two patterns over every output."""
        self._pattern = pool.draw(2)
        for column in self._contents:
            pool.fill(column.memory, column.element_type, column.below)
        for name, column in self._states.items():
            self._states_before[name] = column.memory.copy()
        for column in self._outputs:
            poison(column.rows, column.element_type, self._pattern)

    def find_untouched(self, count: int) -> int | None:
        """The first of `count` calls that left an output as it was poisoned."""
        for column in self._outputs:
            untouched = torch.empty(1, dtype=column.rows.dtype)
            poison(untouched, column.element_type, self._pattern)
            kept = (bits(column.rows[:count]) == bits(untouched)).all(dim=1)
            if bool(kept.any()):
                return int(kept.to(torch.uint8).argmax())
        return None

    def inputs(self, index: int) -> dict[str, torch.Tensor]:
        """Copies of what call `index` gets or got, states as they were before it; parameters in float64, shared."""
        call = self.calls[index]
        tensors = dict(self._parameter_sets[call.parameter_set].exact) if self._parameter_sets else {}
        for spec, place in zip(self.task.inputs, call.tensors, strict=False):
            size_bytes = spec.size_bytes(self.workload.axes)
            if spec.name in self._states:
                start = place.offset_bytes - self._first_offsets[spec.name]
                tensors[spec.name] = self._tensor(self._states_before[spec.name][start : start + size_bytes], spec)
            elif spec.role is not InputRole.PARAMETER:
                tensors[spec.name] = self._tensor(self._arena.bytes_at(place, size_bytes), spec)
        return tensors

    def outputs(self, index: int) -> dict[str, torch.Tensor]:
        """Copies of what call `index` left: outputs, then states."""
        places = self.calls[index].tensors
        written = self._tensors(self.task.outputs, places[len(self.task.inputs) :])
        of_inputs = list(zip(self.task.inputs, places, strict=False))
        states = [(spec, place) for spec, place in of_inputs if spec.role is InputRole.STATE]
        return written | self._tensors([spec for spec, _ in states], [place for _, place in states])

    def close(self) -> None:
        self._contents.clear()
        self._outputs.clear()
        for segment, used in self._used_before.items():
            self._arena.release(segment, used)

    def _tensors(self, specs: Sequence[TensorSpec], places: Sequence[Place]) -> dict[str, torch.Tensor]:
        axes = self.workload.axes
        tensors = {}
        for spec, place in zip(specs, places, strict=False):
            tensors[spec.name] = self._tensor(self._arena.bytes_at(place, spec.size_bytes(axes)), spec)
        return tensors

    def _tensor(self, content: Bytes, spec: TensorSpec) -> torch.Tensor:
        """A copy, with the spec's sizes and strides."""
        flat = torch.from_numpy(content.copy()).view(getattr(torch, spec.element_type.value))
        return flat.as_strided(spec.sizes(self.workload.axes), spec.strides(self.workload.axes))


def _column(spec: TensorSpec, workload: Workload, arena: Arena, places: Sequence[Place]) -> _Column:
    first, size, elements = places[0], spec.size_bytes(workload.axes), spec.allocated_numel(workload.axes)
    # Slots of one size that are allocated in a row lie equally far from each other.
    step_bytes = places[1].offset_bytes - first.offset_bytes if len(places) > 1 else size
    return _Column(
        memory=arena.bytes_at(first, step_bytes * (len(places) - 1) + size),
        rows=arena.tensor(
            first,
            getattr(torch, spec.element_type.value),
            (len(places), elements),
            (step_bytes // spec.element_type.size_bytes, 1),
        ),
        element_type=spec.element_type,
        below=spec.below if isinstance(spec, InputSpec) else None,
    )
