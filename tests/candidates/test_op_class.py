"""Which tasks are alike: sizes and names do not count, what is computed and on what does."""

import pytest

from candidates.op_class import Likeness, classify, compare_tasks
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload

NORM = "def reference(x, w):\n    mean = x.pow(2).mean(-1, keepdim=True)\n    return x * (mean + 1e-05).rsqrt() * w\n"


def task(reference: str = NORM, width: int = 576, element_type: str = "float32", op: str = "Norm") -> KernelTask:
    order = {"element_type": element_type}
    return KernelTask(
        op=op,
        site="model.norm",
        level="leaf",
        reference=reference,
        inputs=(
            InputSpec(name="x", shape=("rows", width), dim_order=(0, 1), role="activation", **order),
            InputSpec(name="w", shape=(width,), dim_order=(0,), role="parameter", **order),
        ),
        outputs=(TensorSpec(name="y", shape=("rows", width), dim_order=(0, 1), **order),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 4}, calls_per_hour=1.0),),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-0",
    )


@pytest.mark.parametrize(
    ("other", "likeness"),
    [
        (task(), Likeness.SAME_TASK),
        (task(width=2048), Likeness.SAME_GRAPH),
        (task(op="AnotherName"), Likeness.SAME_GRAPH),
        (task(NORM.replace("1e-05", "1e-06").replace("mean =", "m =").replace("(mean", "(m")), Likeness.SAME_GRAPH),
        (task("# a comment\n" + NORM), Likeness.SAME_GRAPH),
        (task(NORM.replace("pow(2)", "pow(3)")), Likeness.SAME_SIGNATURE),
        (task(NORM.replace(" * w", " * w * w")), Likeness.SAME_SIGNATURE),
        (task(element_type="bfloat16"), Likeness.SAME_FUNCTIONS),
        (task("def reference(x, w):\n    return x * w\n"), Likeness.NONE),
    ],
)
def test_likeness(other: KernelTask, likeness: Likeness) -> None:
    assert compare_tasks(task(), other) is likeness
    assert compare_tasks(other, task()) is likeness


def test_sizes_within_the_reference_do_not_count() -> None:
    first, second = (
        task(f"def reference(x, w):\n    return x.view([x.shape[0], {heads}, -1]).sum(1)\n") for heads in (9, 32)
    )
    assert compare_tasks(first, second) is Likeness.SAME_GRAPH


def test_the_signature_reads() -> None:
    assert classify(task()).signature == ("activation float32 rank 2, parameter float32 rank 1 -> float32 rank 2")
