"""Floors: bytes over bandwidth, flops over peak, and where cold parameters come from."""

from pathlib import Path

import pytest

from candidates.device import BandwidthCeiling, DeviceCeilings
from candidates.floor import count_flops, floor_us, parameters_are_cold
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload

LEVELS = tuple(
    BandwidthCeiling(working_set_bytes=size, bytes_per_s=rate)
    for size, rate in ((32 << 10, 1e11), (1 << 20, 5e10), (4 << 20, 2e10), (64 << 20, 1e10))
)
CEILINGS = DeviceCeilings(
    device_id="cpu-of-tests",
    threads=1,
    read=LEVELS,
    copy_bandwidth=LEVELS,
    flops_per_s={"float32": 1e11},
    dispatch_us=2.0,
)


def linear_task(instances: int) -> KernelTask:
    def spec(name: str, shape: tuple[int | str, ...], role: InputRole) -> InputSpec:
        return InputSpec(name=name, element_type=ElementType.FLOAT32, shape=shape, dim_order=(0, 1), role=role)

    return KernelTask(
        op="linear",
        site="model.linear",
        level=SiteLevel.LEAF,
        reference="def reference(x, weight):\n    return torch.nn.functional.linear(x, weight)",
        inputs=(
            spec("x", ("rows", 256), InputRole.ACTIVATION),
            spec("weight", (512, 256), InputRole.PARAMETER),
        ),
        outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 512), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 1}, calls_per_hour=1.0), Workload(axes={"rows": 512}, calls_per_hour=1.0)),
        error_bound=ErrorBound(scaled_error=1e-6),
        instances=instances,
        device_id="cpu-of-tests",
    )


def test_flops_count_two_for_a_multiply_add() -> None:
    task = linear_task(1)
    assert [count_flops(task, workload) for workload in task.workloads] == [2 * 256 * 512, 2 * 512 * 256 * 512]


def test_few_rows_are_bound_by_bytes_and_many_by_flops() -> None:
    task = linear_task(1)
    few, many = task.workloads
    assert floor_us(task, few, CEILINGS) == pytest.approx(1e6 * (512 * 256 + 256 + 512) * 4 / 5e10)
    assert floor_us(task, many, CEILINGS) == pytest.approx(1e6 * 2 * 512 * 256 * 512 / 1e11)


def test_flops_are_counted_once_for_each_shape_of_a_task(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    notes = f"def reference(x, weight):\n    open({str(counted)!r}, 'a').write('.')\n    return x @ weight.T"
    task = linear_task(1).model_copy(update={"reference": notes})
    for _ in range(3):
        floors_us = [floor_us(task, workload, CEILINGS) for workload in task.workloads]
    assert floors_us == [floor_us(linear_task(1), workload, CEILINGS) for workload in task.workloads]
    assert counted.read_text() == ".."


def test_every_tensor_moves_once() -> None:
    task = linear_task(30)
    assert [task.moved_bytes(workload) for workload in task.workloads] == [
        4 * (rows * 256 + 512 * 256 + rows * 512) for rows in (1, 512)
    ]


def test_parameters_of_many_instances_come_from_memory() -> None:
    warm, cold = linear_task(1), linear_task(30)
    assert not parameters_are_cold(warm, 4 << 20)
    assert parameters_are_cold(cold, 4 << 20)
    expected_us = 1e6 * (512 * 256 * 4 / 1e10 + (256 + 512) * 4 / 1e11)
    assert floor_us(cold, cold.workloads[0], CEILINGS) == pytest.approx(expected_us)


def test_packed_parameters_lower_the_floor() -> None:
    task = linear_task(30)
    workload = task.workloads[0]
    assert floor_us(task, workload, CEILINGS, 512 * 128) < floor_us(task, workload, CEILINGS) / 3
