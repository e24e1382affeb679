"""PyTorch processes: what they compute in the arena, how they are timed, and what is said when they cannot."""

import contextlib
import os
from pathlib import Path

import pytest
import torch

from candidates.benchmark.baseline import BaselineFailed, BaselinePool
from candidates.kernel_runner import Call
from candidates.measurement import Baseline
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from kernel_sandbox.arena import Arena, Place, Segment

ACCUMULATE = """
def reference(x, total):
    total.add_(x * 2)
    return total.sum(-1)
"""


def accumulate_task(reference: str = ACCUMULATE) -> KernelTask:
    def spec(name: str, role: InputRole) -> InputSpec:
        return InputSpec(name=name, element_type=ElementType.FLOAT32, shape=("rows", 3), dim_order=(1, 0), role=role)

    return KernelTask(
        op="accumulate",
        site="model.accumulate",
        level=SiteLevel.LEAF,
        reference=reference,
        inputs=(spec("x", InputRole.ACTIVATION), spec("total", InputRole.STATE)),
        outputs=(TensorSpec(name="sums", element_type=ElementType.FLOAT32, shape=("rows",), dim_order=(0,)),),
        axes=("rows",),
        workloads=(
            Workload(axes={"rows": 4}, calls_per_hour=1.0),
            Workload(axes={"rows": 6}, calls_per_hour=1.0),
        ),
        error_bound=ErrorBound(scaled_error=1e-6),
        device_id="cpu-of-tests",
    )


def tensor_at(arena: Arena, place: Place, rows: int) -> torch.Tensor:
    return arena.tensor(place, torch.float32, (rows, 3), (1, rows))


@pytest.mark.parametrize("baseline", [Baseline.EAGER, Baseline.EAGER_OUT, Baseline.COMPILE])
def test_calls_the_reference_on_the_tensors_of_the_arena(pool: BaselinePool, baseline: Baseline) -> None:
    core = max(os.sched_getaffinity(0))
    with Arena(1 << 16, 1 << 16) as arena:
        runner = pool.open(baseline, accumulate_task(), arena, core, 1)
        for rows in (4, 6):
            x, total = (arena.allocate(segment, rows * 12) for segment in (Segment.INPUTS, Segment.OUTPUTS))
            sums = arena.allocate(Segment.OUTPUTS, rows * 4)
            runner.lay_out([rows], [Call(tensors=(x, total, sums), parameter_set=0)])
            tensor_at(arena, x, rows).copy_(torch.arange(rows * 3.0).reshape(rows, 3))
            tensor_at(arena, total, rows).fill_(1.0)
            runner.run(0, 0)
            assert bool((tensor_at(arena, total, rows) == 1.0).all())
            runner.run(0, 1)
            assert torch.equal(tensor_at(arena, total, rows), torch.arange(rows * 3.0).reshape(rows, 3) * 2 + 1)
        runner.close()


def test_no_fused_baseline_where_no_op_does_the_same(pool: BaselinePool) -> None:
    with Arena(1 << 16, 1 << 16) as arena, pytest.raises(BaselineFailed, match="no single op"):
        pool.open(Baseline.FUSED, accumulate_task(), arena, None, 1)


def test_many_calls_take_more_cpu_time_than_none(pool: BaselinePool) -> None:
    with Arena(1 << 16, 1 << 16) as arena:
        runner = pool.open(Baseline.EAGER_OUT, accumulate_task(), arena, None, 1)
        places = (arena.allocate(Segment.INPUTS, 48), arena.allocate(Segment.OUTPUTS, 48))
        call = Call(tensors=(*places, arena.allocate(Segment.OUTPUTS, 16)), parameter_set=0)
        runner.lay_out([4], [call] * 200)
        began_ns = runner.cpu_time_ns()
        elapsed_ns = runner.run(0, 200)
        ran_ns = runner.cpu_time_ns() - began_ns
        assert 200_000 < ran_ns <= elapsed_ns + 1_000_000  # eager cannot do two ops in a microsecond
        runner.close()


DYING = """
def reference(x, total):
    import os
    os._exit(3)
"""


def open_descriptors() -> set[int]:
    return {descriptor for descriptor in map(int, os.listdir("/proc/self/fd")) if is_open(descriptor)}


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False  # that of the listing itself
    return True


def test_a_process_that_died_is_not_used_again_and_its_pipes_are_closed_once(tmp_path: Path) -> None:
    with BaselinePool(tmp_path) as pool, Arena(1 << 16, 1 << 16) as arena, contextlib.ExitStack() as others:
        ours: list[int] = []

        def open_others() -> None:
            """On the numbers that are free now, which a second close would take away."""
            for descriptor in (*os.pipe(), *os.pipe()):
                others.callback(os.close, descriptor)
                ours.append(descriptor)

        places = (arena.allocate(Segment.INPUTS, 48), arena.allocate(Segment.OUTPUTS, 48))
        call = Call(tensors=(*places, arena.allocate(Segment.OUTPUTS, 16)), parameter_set=0)
        before = open_descriptors()
        dead = pool.open(Baseline.EAGER_OUT, accumulate_task(DYING), arena, None, 1)
        with pytest.raises(BaselineFailed, match=r"ended \(3\)"):
            dead.lay_out([4], [call])
        open_others()
        alive = pool.open(Baseline.EAGER_OUT, accumulate_task(), arena, None, 1)
        open_others()
        for use in (lambda: dead.run(0, 1), dead.cpu_time_ns, lambda: dead.lay_out([4], [call])):
            with pytest.raises(BaselineFailed, match=r"ended \(3\)"):
                use()
        dead.close()
        alive.lay_out([4], [call])
        alive.run(0, 1)
        pool.close()
        with pytest.raises(BaselineFailed):
            alive.run(0, 1)
        assert open_descriptors() == before | set(ours)


def test_says_what_pytorch_says_when_the_reference_fails(pool: BaselinePool) -> None:
    broken = accumulate_task("def reference(x, total):\n    return x @ total")
    with Arena(1 << 16, 1 << 16) as arena:
        runner = pool.open(Baseline.EAGER_OUT, broken, arena, None, 1)
        places = (arena.allocate(Segment.INPUTS, 48), arena.allocate(Segment.OUTPUTS, 48))
        call = Call(tensors=(*places, arena.allocate(Segment.OUTPUTS, 16)), parameter_set=0)
        with pytest.raises(BaselineFailed, match="shapes cannot be multiplied"):
            runner.lay_out([4], [call])
        runner.close()
