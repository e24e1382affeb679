"""find_fused: the one op that a written-out reference amounts to, whatever its names."""

import pytest
import torch

from candidates.benchmark.fused import find_fused
from candidates.error_bound import derive_error_bound
from candidates.reference import load_reference
from candidates.task import (
    ElementType,
    ErrorBound,
    InputRole,
    InputSpec,
    KernelTask,
    SiteLevel,
    TensorSpec,
    Workload,
)

Shape = tuple[int | str, ...]

ROWS: Shape = ("rows", 64)


def task_of(reference: str, **inputs: Shape) -> KernelTask:
    """Vectors are parameters."""
    float32 = ElementType.FLOAT32
    task = KernelTask(
        op="unnamed",
        site="model.unnamed",
        level=SiteLevel.LEAF,
        reference=reference,
        inputs=tuple(
            InputSpec(
                name=name,
                element_type=float32,
                shape=shape,
                dim_order=tuple(range(len(shape))),
                role=InputRole.ACTIVATION if "rows" in shape else InputRole.PARAMETER,
            )
            for name, shape in inputs.items()
        ),
        outputs=(TensorSpec(name="y", element_type=float32, shape=ROWS, dim_order=(0, 1)),),
        axes=("rows",),
        workloads=tuple(Workload(axes={"rows": rows}, calls_per_hour=1.0) for rows in (3, 9)),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-of-tests",
    )
    return task.model_copy(update={"error_bound": derive_error_bound(task)})


RMS_NORM = task_of(
    """
def reference(scale, hidden):
    squares = hidden.pow(2)
    mean = squares.mean([-1], True)
    inverse = (mean + 1e-5).rsqrt()
    return scale * (hidden * inverse)
""",
    scale=(64,),
    hidden=ROWS,
)
LAYER_NORM = task_of(
    """
def reference(x, scale, shift):
    mean = x.mean(-1, True)
    centred = x - mean
    variance = centred.pow(2).mean(-1, True)
    return shift + scale * (centred * torch.rsqrt(variance + 1e-3))
""",
    x=ROWS,
    scale=(64,),
    shift=(64,),
)
SOFTMAX = task_of(
    """
def reference(x):
    largest = x.amax(-1, True)
    powers = torch.exp(x - largest)
    return powers / powers.sum(-1, True)
""",
    x=ROWS,
)
GATED = task_of(
    """
def reference(gate, up):
    gated = torch.nn.functional.silu(gate)
    scaled = gated * up
    return scaled + 1.0
""",
    gate=ROWS,
    up=ROWS,
)
ALREADY_ONE = task_of("def reference(x):\n    y = torch.softmax(x, -1)\n    return y\n", x=ROWS)


@pytest.mark.parametrize(
    ("task", "op"),
    [(RMS_NORM, "rms_norm"), (LAYER_NORM, "layer_norm"), (SOFTMAX, "softmax")],
    ids=["rms norm", "layer norm", "softmax"],
)
def test_finds_the_op_and_its_arguments(task: KernelTask, op: str) -> None:
    source = find_fused(task)
    assert source is not None
    assert op in source
    torch.manual_seed(0)
    tensors = [torch.randn(spec.sizes({"rows": 5})) for spec in task.inputs]
    torch.testing.assert_close(load_reference(source)(*tensors), load_reference(task.reference)(*tensors))


@pytest.mark.parametrize("task", [GATED, ALREADY_ONE], ids=["none exists", "it is one"])
def test_finds_nothing_where_there_is_nothing_to_fuse(task: KernelTask) -> None:
    assert find_fused(task) is None


def test_other_constant_is_another_function() -> None:
    other = LAYER_NORM.model_copy(update={"reference": LAYER_NORM.reference.replace("1e-3", "1e-3 + 0.5")})
    assert find_fused(other) is None
