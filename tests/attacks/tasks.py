"""The tasks that kernels of the corpus are written for, by the name in their headers; made when first asked for.

Rows of public workloads are 1, 8 and 33, a hidden one has 5, where nothing else is said.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from judge_tasks import LINEAR, RMSNORM, STATE_TASK, Shape, input_spec, make_task, output_spec

from candidates.task import ElementType, InputRole, InputSpec, KernelTask, TensorSpec

PARAMETER, STATE = InputRole.PARAMETER, InputRole.STATE
FLOAT32, BFLOAT16, FLOAT16 = ElementType.FLOAT32, ElementType.BFLOAT16, ElementType.FLOAT16
INT32, INT64 = ElementType.INT32, ElementType.INT64


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


def _numbers(name: str, shape: Shape, below: int, element_type: ElementType) -> InputSpec:
    return input_spec(name, shape, element_type=element_type).model_copy(update={"below": below})


def _linear(
    columns: int,
    features: int,
    rows: Sequence[int] = (1, 8, 33),
    instances: int = 1,
    element_type: ElementType = FLOAT32,
) -> Callable[[], KernelTask]:
    weight = input_spec("weight", (features, columns), PARAMETER, element_type)
    return _task(
        "linear",
        "torch.nn.functional.linear(x, weight)",
        [_rows("x", columns, element_type), weight],
        [_out(features, element_type)],
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
_RMSNORM = "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight"
_ATTENTION = """later = torch.ones(q.shape[0], q.shape[0]).triu(1).bool()
    return torch.softmax((q @ k.t() / 4).masked_fill(later, float("-inf")), -1) @ v"""
_RECURRENCE = """h = x[:, 0]
    left = [h]
    for i in range(1, 16):
        h = torch.sigmoid(a[:, i]) * h + x[:, i]
        left.append(h)
    return torch.stack(left, -1)"""

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
    "linear_long": _linear(256, 48),
    "linear_bfloat16": _linear(64, 48, element_type=BFLOAT16),
    "linear_float16": _linear(64, 48, element_type=FLOAT16),
    "rmsnorm_bfloat16": _task(
        "rmsnorm",
        _RMSNORM,
        [_rows("x", 200, BFLOAT16), input_spec("weight", (200,), PARAMETER, BFLOAT16)],
        [_out(200, BFLOAT16)],
    ),
    "madd_bfloat16": _task("madd", "a * b + c", [_rows(name, 64, BFLOAT16) for name in "abc"], [_out(64, BFLOAT16)]),
    "halve_float16": _task("halve", "x * 0.3", [_rows("x", 40, FLOAT16)], [_out(40, FLOAT16)]),
    "error_function": _task("error_function", "torch.erf(x)", [_rows("x", 50)], [_out(50)]),
    "row_variance": _task("row_variance", "x.var(-1, correction=0)", [_rows("x", 100)], [output_spec("y", ("rows",))]),
    "column_sum": _task("column_sum", "x.sum(0)", [_rows("x", 24)], [output_spec("y", (24,))]),
    "column_sum_bfloat16": _task(
        "column_sum", "x.sum(0)", [_rows("x", 24, BFLOAT16)], [output_spec("y", (24,), BFLOAT16)]
    ),
    "any_large": _task(
        "any_large", "(x > 1).any(-1)", [_rows("x", 30)], [output_spec("y", ("rows",), ElementType.BOOL)]
    ),
    "cumulative_max": _task("cumulative_max", "x.cummax(-1).values", [_rows("x", 32)], [_out(32)]),
    "recurrence": _task("recurrence", _RECURRENCE, [_rows("a", 16), _rows("x", 16)], [_out(16)]),
    "sorted": _task("sorted", "x.sort(-1).values", [_rows("x", 32)], [_out(32)]),
    "largest_4": _task("largest_4", "x.topk(4, -1).values", [_rows("x", 32)], [_out(4)]),
    "attention": _task("attention", _ATTENTION, [_rows(name, 16) for name in "qkv"], [_out(16)]),
    "add_bias": _task(
        "add_bias",
        "x + bias",
        [input_spec("x", ("rows", 4, 16)), input_spec("bias", (4, 16), PARAMETER)],
        [output_spec("y", ("rows", 4, 16))],
    ),
    "embedding": _task(
        "embedding",
        "table[ids]",
        [_numbers("ids", ("rows",), 32, INT64), input_spec("table", (32, 40), PARAMETER)],
        [_out(40)],
    ),
    "count": _task(
        "count",
        "torch.nn.functional.one_hot(ids, 8).sum((0, 1))",
        [_numbers("ids", ("rows", 16), 8, INT64)],
        [output_spec("y", (8,), INT64)],
    ),
    "wrap": _task(
        "wrap", "(x - 50) // 7 * 3 + (x - 50) % 7", [_numbers("x", ("rows", 16), 100, INT32)], [_out(16, INT32)]
    ),
    "total": _task(
        "total", "x.sum(-1)", [_numbers("x", ("rows", 100), 1 << 30, INT32)], [output_spec("y", ("rows",), INT64)]
    ),
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
