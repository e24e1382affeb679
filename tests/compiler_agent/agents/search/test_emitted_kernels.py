"""Emitted kernels against the float64 oracle: every program class, both float types, odd sizes, several schedules."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from compiled_kernel import (
    CompiledKernel,
    activation,
    make_task,
    parameter,
    tensor,
    worst_error_in_bounds,
)

from candidates.inputs import Distribution, draw_inputs
from candidates.task import KernelTask, Workload
from compiler_agent.agents.search.agent import naive_kernel
from compiler_agent.agents.search.emit_cpp import emit_candidate
from compiler_agent.agents.search.program import ContractionStage, NoProgram, Program
from compiler_agent.agents.search.schedule import Schedule
from compiler_agent.agents.search.staging import write_program

ROWS = [{"tokens": 1}, {"tokens": 7}]
OTHER_SCHEDULE = Schedule(vector_width=8, unroll=4, reuse_from_cost=20, weights="rows", row_tile=4, column_tile=4)


def rmsnorm(dtype: str) -> KernelTask:
    reference = """
def reference(x, weight):
    wide = x.to(torch.float32)
    variance = wide.pow(2).mean(-1, keepdim=True)
    return weight * (wide * torch.rsqrt(variance + 1e-5)).to(x.dtype)
"""
    shape = ("batch", "tokens", 579)
    return make_task(
        "rmsnorm",
        reference,
        [activation("x", *shape, dtype=dtype), parameter("weight", 579, dtype=dtype)],
        [tensor("y", *shape, dtype=dtype)],
        [{"batch": 1, "tokens": 1}, {"batch": 3, "tokens": 7}],
    )


def residual_rmsnorm(dtype: str) -> KernelTask:
    reference = """
def reference(x, residual, weight):
    total = x + residual
    wide = total.to(torch.float32)
    variance = wide.pow(2).mean(-1, keepdim=True)
    return total, weight * (wide * torch.rsqrt(variance + 1e-5)).to(x.dtype)
"""
    inputs = [activation(name, "tokens", 579, dtype=dtype) for name in ("x", "residual")]
    outputs = [tensor(name, "tokens", 579, dtype=dtype) for name in ("total", "normed")]
    return make_task("residual_rmsnorm", reference, [*inputs, parameter("weight", 579, dtype=dtype)], outputs, ROWS)


def silu_gate(dtype: str) -> KernelTask:
    reference = """
def reference(gate, up):
    return torch.ops.aten.silu.default(gate) * up
"""
    inputs = [activation(name, "tokens", 1537, dtype=dtype) for name in ("gate", "up")]
    return make_task("silu_gate", reference, inputs, [tensor("y", "tokens", 1537, dtype=dtype)], ROWS)


def gelu_gate(dtype: str) -> KernelTask:
    reference = """
def reference(x):
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.gelu(gate, approximate="tanh") * up, torch.nn.functional.gelu(up)
"""
    inputs = [activation("x", "tokens", 2 * 301, dtype=dtype)]
    outputs = [tensor(name, "tokens", 301, dtype=dtype) for name in ("gated", "plain")]
    return make_task("gelu_gate", reference, inputs, outputs, ROWS)


def layernorm(dtype: str) -> KernelTask:
    reference = """
def reference(x, weight, bias):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)
"""
    inputs = [activation("x", "tokens", 301, dtype=dtype)]
    inputs += [parameter(name, 301, dtype=dtype) for name in ("weight", "bias")]
    return make_task("layernorm", reference, inputs, [tensor("y", "tokens", 301, dtype=dtype)], ROWS)


def softmax(dtype: str) -> KernelTask:
    reference = """
def reference(scores):
    return torch.softmax(scores, -1)
"""
    shape = ("batch", 3, "tokens", "keys")
    workloads = [{"batch": 1, "tokens": 1, "keys": 3}, {"batch": 2, "tokens": 5, "keys": 135}]
    return make_task(
        "softmax",
        reference,
        [activation("scores", *shape, dtype=dtype)],
        [tensor("shares", *shape, dtype=dtype)],
        workloads,
    )


def masked_softmax(dtype: str) -> KernelTask:
    """Rows that the mask leaves empty are NaN, in the oracle too."""
    reference = """
def reference(scores, mask):
    scaled = (scores * 0.125).masked_fill(~mask, float("-inf"))
    return torch.softmax(scaled.to(torch.float32), -1).to(scores.dtype)
"""
    shape = ("batch", 3, "tokens", "keys")
    workloads = [{"batch": 1, "tokens": 1, "keys": 3}, {"batch": 2, "tokens": 5, "keys": 135}]
    return make_task(
        "masked_softmax",
        reference,
        [
            activation("scores", *shape, dtype=dtype),
            activation("mask", "batch", 1, "tokens", "keys", dtype="bool"),
        ],
        [tensor("shares", *shape, dtype=dtype)],
        workloads,
    )


def softmax_with_added_mask(dtype: str) -> KernelTask:
    reference = """
def reference(scores, mask):
    return torch.softmax(scores * 0.125 + mask, -1, dtype=torch.float32).to(scores.dtype)
"""
    inputs = [activation("scores", "batch", 3, "tokens", "keys", dtype=dtype)]
    inputs.append(activation("mask", "batch", 1, "tokens", "keys", dtype=dtype))
    outputs = [tensor("shares", "batch", 3, "tokens", "keys", dtype=dtype)]
    workloads = [{"batch": 1, "tokens": 1, "keys": 3}, {"batch": 2, "tokens": 5, "keys": 135}]
    return make_task("softmax_with_added_mask", reference, inputs, outputs, workloads)


def rope(dtype: str) -> KernelTask:
    """Queries and keys as attention sees them: [batch, heads, tokens, dim] over a buffer with tokens before heads."""
    reference = """
def rotate_half(x):
    middle = x.shape[-1] // 2
    return torch.cat((-x[..., middle:], x[..., :middle]), dim=-1)

def reference(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
"""
    order = (0, 2, 1, 3)
    heads = {"q": 9, "k": 3}
    inputs = [activation(name, "batch", count, "tokens", 64, dtype=dtype, order=order) for name, count in heads.items()]
    inputs += [activation(name, "batch", "tokens", 64, dtype=dtype) for name in ("cos", "sin")]
    outputs = [
        tensor(f"{name}_rotated", "batch", count, "tokens", 64, dtype=dtype, order=order)
        for name, count in heads.items()
    ]
    return make_task("rope", reference, inputs, outputs, [{"batch": 1, "tokens": 1}, {"batch": 3, "tokens": 7}])


def scaled_residual(dtype: str) -> KernelTask:
    reference = """
def reference(x, residual, scale):
    return residual + 0.22 * x * scale
"""
    inputs = [activation(name, "tokens", 61, dtype=dtype) for name in ("x", "residual")]
    inputs.append(parameter("scale", 61, dtype=dtype))
    return make_task("scaled_residual", reference, inputs, [tensor("y", "tokens", 61, dtype=dtype)], ROWS)


def linear(dtype: str) -> KernelTask:
    reference = """
def reference(x, weight):
    return torch.nn.functional.linear(x, weight)
"""
    return make_task(
        "linear",
        reference,
        [activation("x", "tokens", 203, dtype=dtype), parameter("weight", 101, 203, dtype=dtype)],
        [tensor("y", "tokens", 101, dtype=dtype)],
        [{"tokens": rows} for rows in (1, 3, 8, 33, 128)],
    )


def linear_with_bias(dtype: str) -> KernelTask:
    """The result transposed to heads, as attention wants it: the product goes through a buffer."""
    reference = """
def reference(x, weight, bias):
    y = torch.nn.functional.linear(x, weight, bias)
    return y.view(x.shape[0], x.shape[1], -1, 16).transpose(1, 2)
"""
    return make_task(
        "linear_with_bias",
        reference,
        [
            activation("x", "batch", "tokens", 203, dtype=dtype),
            parameter("weight", 80, 203, dtype=dtype),
            parameter("bias", 80, dtype=dtype),
        ],
        [tensor("y", "batch", 5, "tokens", 16, dtype=dtype)],
        [{"batch": 1, "tokens": 1}, {"batch": 3, "tokens": 11}],
    )


def mlp_block(dtype: str) -> KernelTask:
    """Norm, gate, up, activation, down and residual in one program of four stages."""
    reference = """
def reference(x, norm, gate, up, down):
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu
    h = torch.nn.functional.rms_norm(x, (x.shape[-1],), norm, 1e-5)
    return x + linear(silu(linear(h, gate)) * linear(h, up), down)
"""
    return make_task(
        "mlp_block",
        reference,
        [
            activation("x", "tokens", 96, dtype=dtype),
            parameter("norm", 96, dtype=dtype),
            parameter("gate", 200, 96, dtype=dtype),
            parameter("up", 200, 96, dtype=dtype),
            parameter("down", 96, 200, dtype=dtype),
        ],
        [tensor("y", "tokens", 96, dtype=dtype)],
        ROWS,
    )


TASKS = [
    rmsnorm,
    residual_rmsnorm,
    silu_gate,
    gelu_gate,
    layernorm,
    softmax,
    masked_softmax,
    softmax_with_added_mask,
    rope,
    scaled_residual,
    linear,
    linear_with_bias,
    mlp_block,
]


def program_of(task: KernelTask) -> Program:
    program = write_program(task)
    assert not isinstance(program, NoProgram), program.reason
    return program


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("make", TASKS)
def test_emitted_kernel_stays_inside_the_error_bound(make, dtype: str, tmp_path: Path) -> None:
    task = make(dtype)
    kernel = CompiledKernel(task, emit_candidate(program_of(task), Schedule()), tmp_path)
    assert worst_error_in_bounds(task, kernel) <= 1.0


@pytest.mark.parametrize("make", [residual_rmsnorm, softmax, rope, linear])
def test_schedule_changes_the_code_but_not_the_values(make, tmp_path: Path) -> None:
    task = make("float32")
    kernel = CompiledKernel(task, emit_candidate(program_of(task), OTHER_SCHEDULE), tmp_path)
    assert worst_error_in_bounds(task, kernel) <= 1.0


@pytest.mark.parametrize("make", [residual_rmsnorm, masked_softmax, rope, mlp_block])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_naive_kernel_is_correct(make, dtype: str, tmp_path: Path) -> None:
    task = make(dtype)
    candidate = naive_kernel(task)
    assert not isinstance(candidate, NoProgram)
    kernel = CompiledKernel(task, candidate, tmp_path)
    assert worst_error_in_bounds(task, kernel, (Distribution.NORMAL, Distribution.LARGE)) <= 1.0


@pytest.mark.parametrize(
    ("weights", "dtype"),
    [
        *(("panels", dtype) for dtype in ("float32", "bfloat16")),
        *(("rows", dtype) for dtype in ("float32", "bfloat16")),
        ("pairs", "bfloat16"),
    ],
)
def test_error_of_a_deep_contraction_is_at_most_twice_that_of_pytorch(
    weights: Literal["panels", "pairs", "rows"], dtype: str, tmp_path: Path
) -> None:
    reference = """
def reference(x, weight):
    return torch.nn.functional.linear(x, weight)
"""
    inputs = [activation("x", "tokens", 4096, dtype=dtype), parameter("weight", 256, 4096, dtype=dtype)]
    task = make_task("deep", reference, inputs, [tensor("y", "tokens", 256, dtype=dtype)], ROWS)
    twice = task.model_copy(update={"error_bound": task.error_bound.model_copy(update={"factor": 2.0})})
    kernel = CompiledKernel(task, emit_candidate(program_of(task), Schedule(weights=weights)), tmp_path)
    assert worst_error_in_bounds(twice, kernel) <= 1.0


@pytest.mark.parametrize("columns", [4096, "columns"])
def test_sum_over_a_long_row_of_equal_values_stays_inside_the_error_bound(columns: int | str, tmp_path: Path) -> None:
    workloads = [{"tokens": 3}] if columns == 4096 else [{"tokens": 3, "columns": size} for size in (49152, 517)]
    reference = """
def reference(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
"""
    inputs, outputs = [activation("x", "tokens", columns)], [tensor("y", "tokens", columns)]
    task = make_task("long_rows", reference, inputs, outputs, workloads)
    schedule = Schedule(vector_width=8, unroll=1)
    for candidate in (emit_candidate(program_of(task), schedule), naive_kernel(task)):
        assert not isinstance(candidate, NoProgram)
        kernel = CompiledKernel(task, candidate, tmp_path)
        assert worst_error_in_bounds(task, kernel, (Distribution.NORMAL, Distribution.CONSTANT_ROWS)) <= 1.0


@pytest.mark.parametrize("vector_width", [8, 16])
def test_products_of_pairs_are_right_without_their_instruction(vector_width: Literal[8, 16], tmp_path: Path) -> None:
    reference = "def reference(x, weight):\n    return torch.nn.functional.linear(x, weight)\n"
    inputs = [activation("x", "tokens", 202, dtype="bfloat16"), parameter("weight", 101, 202, dtype="bfloat16")]
    workloads = [{"tokens": rows} for rows in (1, 3, 9)]
    task = make_task("pairs", reference, inputs, [tensor("y", "tokens", 101, dtype="bfloat16")], workloads)
    candidate = emit_candidate(program_of(task), Schedule(weights="pairs", vector_width=vector_width))
    portable = candidate.model_copy(update={"source": f"#undef __AVX512BF16__\n{candidate.source}"})
    for each in (candidate, portable):
        assert worst_error_in_bounds(task, CompiledKernel(task, each, tmp_path)) <= 1.0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("make", [residual_rmsnorm, softmax, rope])
def test_what_is_stored_past_the_caches_is_the_same(make, dtype: str, tmp_path: Path) -> None:
    task = make(dtype)
    large = {"residual_rmsnorm": {"tokens": 1024}, "softmax": {"batch": 2, "tokens": 64, "keys": 8192}}
    workload = Workload(axes=large.get(task.op, {"batch": 4, "tokens": 512}), calls_per_hour=1.0)
    task = task.model_copy(update={"workloads": (workload,)})
    stored = emit_candidate(program_of(task), Schedule())
    streamed = emit_candidate(program_of(task), Schedule(stream_from_bytes=4_194_304, prefetch_bytes=4096))
    # Rows of 579 begin anywhere, and so may rows of any number of keys: a vector there has no line of its own.
    assert ("STREAMED>" in streamed.source.split("struct Call")[1]) == (make is rope)
    inputs = draw_inputs(task, workload, Distribution.NORMAL, np.random.default_rng(3))
    one, other = (CompiledKernel(task, each, tmp_path)(inputs, workload.axes) for each in (stored, streamed))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_functions_keep_infinities_nan_and_denormals(tmp_path: Path) -> None:
    reference = """
def reference(x):
    return torch.exp(x), torch.sigmoid(x), torch.tanh(x), torch.erf(x), torch.relu(x)
"""
    outputs = [tensor(name, "tokens", "width") for name in ("exponential", "logistic", "bent", "error", "rectified")]
    task = make_task(
        "functions", reference, [activation("x", "tokens", "width")], outputs, [{"tokens": 1, "width": 37}]
    )
    inf, nan = float("inf"), float("nan")
    special = [0.0, -0.0, inf, -inf, nan, 1e-40, -1e-40, 88.7, 88.8, 89.5, -87.5, -100.0, -103.9, -104.5, 1e30, -1e30]
    x = torch.tensor([special + torch.linspace(-9, 9, 21).tolist()])
    for width in (16, 8):
        candidate = emit_candidate(program_of(task), Schedule(vector_width=width))
        got = CompiledKernel(task, candidate, tmp_path)({"x": x}, {"tokens": 1, "width": 37})
        functions = {"exponential": torch.exp, "logistic": torch.sigmoid, "bent": torch.tanh, "error": torch.erf}
        for name, function in (functions | {"rectified": torch.relu}).items():
            exact = function(x.double()).float()
            # Where e^-x overflows, 1 / (1 + e^-x) is zero, as in PyTorch itself.
            smallest = 1e-38 if name == "logistic" else 2e-45
            torch.testing.assert_close(got[name], exact, rtol=3e-7, atol=smallest, equal_nan=True)


def test_a_block_becomes_one_program_with_its_elementwise_work_fused_into_the_products() -> None:
    program = program_of(mlp_block("float32"))
    assert [type(stage).__name__ for stage in program.stages] == ["MapStage", *["ContractionStage"] * 3]
    assert sum(isinstance(stage, ContractionStage) for stage in program.stages) == 3


def test_names_that_mean_something_in_cpp_are_changed(tmp_path: Path) -> None:
    reference = """
def reference(double, sum):
    return double * sum
"""
    inputs = [activation(name, "int", 5) for name in ("double", "sum")]
    task = make_task("names", reference, inputs, [tensor("load", "int", 5)], [{"int": 3}])
    kernel = CompiledKernel(task, emit_candidate(program_of(task), Schedule()), tmp_path)
    assert worst_error_in_bounds(task, kernel) <= 1.0


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("return torch.cumsum(x, -1)", "aten.cumsum"),
        ("return torch.matmul(x, x.transpose(-1, -2))[..., :5]", "product of two activations"),
        ("return torch.sort(x, -1)[0]", "aten.sort"),
        ("return torch.nn.functional.conv1d(x[None], x[:, :, None])[0]", "conv"),
    ],
)
def test_graph_outside_the_class_gives_no_program_that_names_the_op(body: str, named: str) -> None:
    task = make_task("other", f"def reference(x):\n    {body}\n", [activation("x", 5, 5)], [tensor("y", 5, 5)], [{}])
    program = write_program(task)
    assert isinstance(program, NoProgram)
    assert named in program.reason


def test_reference_that_writes_its_input_gives_no_program() -> None:
    reference = "def reference(x):\n    x.mul_(2.0)\n    return x + 1.0\n"
    task = make_task("in_place", reference, [activation("x", "tokens", 5)], [tensor("y", "tokens", 5)], ROWS)
    program = write_program(task)
    assert isinstance(program, NoProgram)
    assert "in-place" in program.reason
