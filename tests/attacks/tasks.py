"""The tasks that kernels of the corpus are written for, by the name in their headers; made when first asked for.

Rows of public workloads are 1, 8 and 33, a hidden one has 5, where nothing else is said.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from judge_tasks import LINEAR, RMSNORM, STATE_TASK, input_spec, make_task, output_spec

from candidates.task import ElementType, InputRole, InputSpec, KernelTask, TensorSpec

PARAMETER, STATE = InputRole.PARAMETER, InputRole.STATE
FLOAT32, BFLOAT16, FLOAT16 = ElementType.FLOAT32, ElementType.BFLOAT16, ElementType.FLOAT16


def _task(
    op: str,
    returned: str,
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
    *,
    rows: Sequence[int] = (1, 8, 33),
    hidden_rows: Sequence[int] = (5,),
    instances: int = 1,
) -> Callable[[], KernelTask]:
    """`returned` is the body of the reference, or the expression that it returns."""
    body = returned if "return " in returned else f"return {returned}"
    reference = f"def reference({', '.join(spec.name for spec in inputs)}):\n    {body}\n"

    @functools.cache
    def make() -> KernelTask:
        task = make_task(op, reference, inputs, outputs, rows=rows, hidden_rows=hidden_rows)
        return task.model_copy(update={"instances": instances})

    return make


def _rows(name: str, columns: int, element_type: ElementType = FLOAT32) -> InputSpec:
    return input_spec(name, ("rows", columns), element_type=element_type)


def _out(columns: int, element_type: ElementType = FLOAT32) -> TensorSpec:
    return output_spec("y", ("rows", columns), element_type)


def _linear(columns: int, features: int, rows: Sequence[int], instances: int = 1) -> Callable[[], KernelTask]:
    weight = input_spec("weight", (features, columns), PARAMETER)
    return _task(
        "linear",
        "torch.nn.functional.linear(x, weight)",
        [_rows("x", columns), weight],
        [_out(features)],
        rows=rows,
        instances=instances,
    )


def _gated(rows: Sequence[int]) -> Callable[[], KernelTask]:
    weight = input_spec("weight", (256,), PARAMETER)
    return _task("gated", "torch.relu(x * weight) + x", [_rows("x", 256), weight], [_out(256)], rows=rows)


def _running_mean(rows: Sequence[int]) -> Callable[[], KernelTask]:
    return _task(
        "running_mean",
        "mean.mul_(0.9).add_(x, alpha=0.1); return x - mean",
        [_rows("x", 64), input_spec("mean", ("rows", 64), STATE)],
        [_out(64)],
        rows=rows,
    )


_LAYER_NORM = "torch.nn.functional.layer_norm(x, (256,), weight, bias)"
_ROTATE = "torch.cat([x[..., :32] * c - x[..., 32:] * s, x[..., 32:] * c + x[..., :32] * s], -1)"
_GELU = "torch.nn.functional.gelu(x, approximate='tanh')"

TASKS: Mapping[str, Callable[[], KernelTask]] = {
    "rmsnorm": lambda: RMSNORM,
    "linear": lambda: LINEAR,
    "accumulate": lambda: STATE_TASK,
    "softmax": _task("softmax", "torch.softmax(x, -1)", [_rows("x", 200)], [_out(200)]),
    "layer_norm": _task(
        "layer_norm",
        _LAYER_NORM,
        [_rows("x", 256), input_spec("weight", (256,), PARAMETER), input_spec("bias", (256,), PARAMETER)],
        [_out(256)],
    ),
    "silu_mul": _task(
        "silu_mul", "torch.nn.functional.silu(gate) * up", [_rows("gate", 96), _rows("up", 96)], [_out(96)]
    ),
    "silu_mul_bfloat16": _task(
        "silu_mul",
        "torch.nn.functional.silu(gate) * up",
        [_rows("gate", 96, BFLOAT16), _rows("up", 96, BFLOAT16)],
        [_out(96, BFLOAT16)],
    ),
    "square_float16": _task("square", "x * x + 1", [_rows("x", 48, FLOAT16)], [_out(48, FLOAT16)]),
    "gelu": _task("gelu", _GELU, [_rows("x", 131)], [_out(131)]),
    "sigmoid": _task("sigmoid", "torch.sigmoid(x)", [_rows("x", 64)], [_out(64)]),
    "reciprocal": _task("reciprocal", "1 / torch.round(x)", [_rows("x", 64)], [_out(64)]),
    "row_sum": _task("row_sum", "x.sum(-1, keepdim=True)", [_rows("x", 1000)], [_out(1)]),
    "cumulative_sum": _task("cumulative_sum", "x.cumsum(-1)", [_rows("x", 77)], [_out(77)]),
    "argmax": _task("argmax", "x.argmax(-1)", [_rows("x", 16)], [output_spec("y", ("rows",), ElementType.INT64)]),
    "is_positive": _task("is_positive", "x > 0", [_rows("x", 40)], [_out(40, ElementType.BOOL)]),
    "largest": _task(
        "largest",
        "return x.amax(-1), x.argmax(-1)",
        [_rows("x", 50)],
        [output_spec("value", ("rows",)), output_spec("index", ("rows",), ElementType.INT64)],
    ),
    "pick": _task(
        "pick",
        "torch.where(flag, x, -x)",
        [_rows("x", 24), _rows("flag", 24, ElementType.BOOL)],
        [_out(24)],
    ),
    "rotate": _task("rotate", _ROTATE, [_rows("x", 64), _rows("c", 32), _rows("s", 32)], [_out(64)]),
    "add_heads": _task(
        "add_heads",
        "(q + k).contiguous()",
        [input_spec("q", ("rows", 4, 16), dim_order=(1, 0, 2)), input_spec("k", ("rows", 4, 16))],
        [output_spec("y", ("rows", 4, 16))],
    ),
    "transpose": _task(
        "transpose",
        "x.transpose(-1, -2).contiguous() * 2",
        [input_spec("x", ("rows", 16, 24))],
        [output_spec("y", ("rows", 24, 16))],
    ),
    "running_mean": _running_mean((1, 8, 33)),
    # For races: what is fast there must be so by cheating.
    "gated": _gated((1,)),
    "gated_many": _gated((16,)),
    "running_mean_race": _running_mean((1,)),
    "linear_race": _linear(384, 384, rows=(1,)),
    "linear_two_sizes": _linear(384, 384, rows=(1, 2)),
    "linear_instances": _linear(512, 512, rows=(1,), instances=2),
    "linear_cold": _linear(512, 512, rows=(1,), instances=64),
    "choose": _task(
        "choose",
        "torch.where(flag, weight.cumsum(0).amax(0), weight.cumsum(0).amin(0))",
        [input_spec("flag", ("rows", 1), element_type=ElementType.BOOL), input_spec("weight", (512, 512), PARAMETER)],
        [_out(512)],
        rows=(1,),
    ),
}
