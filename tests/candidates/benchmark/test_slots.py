"""Slots: fresh content before every sample, poison that shows what was not written, states as they were before."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from candidates.benchmark.slots import ContentPool, PlacedParameters, Slots, place_parameters
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from kernel_sandbox.arena import Arena

CALLS = 5


def mixed_task() -> KernelTask:
    def spec(name: str, shape: tuple[int | str, ...], element_type: ElementType, role: InputRole) -> InputSpec:
        return InputSpec(
            name=name, element_type=element_type, shape=shape, dim_order=tuple(range(len(shape)))[::-1], role=role
        )

    return KernelTask(
        op="mixed",
        site="model.mixed",
        level=SiteLevel.LEAF,
        reference="def reference(x, weight, mask, cache):\n    cache.add_(1)\n    return x * weight * mask",
        inputs=(
            spec("x", ("rows", 7), ElementType.BFLOAT16, InputRole.ACTIVATION),
            spec("weight", (7,), ElementType.BFLOAT16, InputRole.PARAMETER),
            spec("mask", ("rows", 7), ElementType.BOOL, InputRole.ACTIVATION),
            spec("cache", ("rows",), ElementType.INT64, InputRole.STATE),
        ),
        outputs=(TensorSpec(name="y", element_type=ElementType.BFLOAT16, shape=("rows", 7), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 3}, calls_per_hour=1.0),),
        error_bound=ErrorBound(scaled_error=1e-3),
        instances=2,
        device_id="cpu-of-tests",
    )


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(1 << 20, 1 << 20) as arena:
        yield arena


@pytest.fixture
def slots(arena: Arena) -> Slots:
    task = mixed_task()
    sets = [{"weight": torch.full((7,), value, dtype=torch.bfloat16)} for value in (1.0, 2.0)]
    return Slots(task, task.workloads[0], CALLS, arena, place_parameters(task, arena, sets))


@pytest.fixture
def content() -> ContentPool:
    return ContentPool(np.random.default_rng(0))


def write(slots: Slots, arena: Arena, index: int, name: str, value: float) -> None:
    task = slots.task
    position = [spec.name for spec in (*task.inputs, *task.outputs)].index(name)
    spec = (*task.inputs, *task.outputs)[position]
    axes = slots.workload.axes
    element_type = getattr(torch, spec.element_type.value)
    place = slots.calls[index].tensors[position]
    arena.tensor(place, element_type, spec.sizes(axes), spec.strides(axes)).fill_(value)


def test_every_refresh_brings_other_content_to_every_call(slots: Slots, content: ContentPool) -> None:
    slots.refresh(content)
    before = [slots.inputs(index)["x"] for index in range(CALLS)]
    slots.refresh(content)
    after = [slots.inputs(index)["x"] for index in range(CALLS)]
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert len({tuple(x.flatten().tolist()) for x in after}) == CALLS
    assert all(bool(torch.isfinite(x.float()).all()) for x in after)


@pytest.mark.parametrize("element_type", [ElementType.FLOAT32, ElementType.BFLOAT16, ElementType.FLOAT16])
def test_content_never_comes_back(element_type: ElementType, content: ContentPool) -> None:
    """Else a kernel that remembers its results would look fast."""
    rows = np.zeros((20_000, 64), dtype=np.uint8)
    for row in rows:
        content.fill(row, element_type)
    assert len(np.unique(rows, axis=0)) == len(rows)
    values = torch.from_numpy(rows).view(getattr(torch, element_type.value)).float()
    assert bool(torch.isfinite(values).all())
    assert 0.8 < float(values.std()) < 1.25


@pytest.mark.parametrize("element_type", [ElementType.INT64, ElementType.INT32, ElementType.BOOL])
def test_integers_are_zero_or_one(element_type: ElementType, content: ContentPool) -> None:
    row = np.zeros(4096, dtype=np.uint8)
    content.fill(row, element_type)
    values = torch.from_numpy(row).view(getattr(torch, element_type.value)).tolist()
    assert set(values) == {0, 1}


def test_parameters_are_rotated_and_kept(slots: Slots, content: ContentPool) -> None:
    slots.refresh(content)
    weights = [float(slots.inputs(index)["weight"][0]) for index in range(CALLS)]
    assert weights == [1.0, 2.0, 1.0, 2.0, 1.0]


def test_finds_the_first_call_that_wrote_nothing(slots: Slots, content: ContentPool, arena: Arena) -> None:
    for _ in range(8):  # both poison patterns
        slots.refresh(content)
        assert slots.find_untouched(CALLS) == 0
        for index in (0, 1, 3, 4):
            write(slots, arena, index, "y", 1.0)
        assert slots.find_untouched(2) is None
        assert slots.find_untouched(CALLS) == 2


def test_inputs_show_states_as_they_were_and_outputs_as_they_are(
    slots: Slots, content: ContentPool, arena: Arena
) -> None:
    slots.refresh(content)
    before = slots.inputs(3)["cache"]
    write(slots, arena, 3, "cache", 77)
    assert torch.equal(slots.inputs(3)["cache"], before)
    assert slots.outputs(3)["cache"].tolist() == [77, 77, 77]


def test_closing_gives_the_room_back(slots: Slots, arena: Arena) -> None:
    task = slots.task
    slots.close()
    for _ in range(50):
        Slots(task, task.workloads[0], 200, arena, [PlacedParameters(slots.calls[0].tensors[1:2], {})]).close()


def test_integers_go_as_far_as_they_may(content: ContentPool) -> None:
    memory = np.zeros(8000, dtype=np.uint8)
    content.fill(memory, ElementType.INT64, below=50)
    assert set(memory.view(np.int64)) == set(range(50))
