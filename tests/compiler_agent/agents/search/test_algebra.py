"""Rewritten expressions: the same values in float64, cheaper, by named rewrites, as accurate as their class says."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import sympy
import torch
from compiled_kernel import CompiledKernel, activation, make_task, parameter, tensor, worst_error_in_bounds
from test_emitted_kernels import layernorm, masked_softmax, mlp_block, rmsnorm, silu_gate, softmax

from candidates.task import KernelTask
from compiler_agent.agents.search.algebra import variants as saturation
from compiler_agent.agents.search.algebra.rewrites import REWRITINGS
from compiler_agent.agents.search.algebra.terms import with_common_variables
from compiler_agent.agents.search.algebra.variants import Variant, variants
from compiler_agent.agents.search.emit_cpp import emit_candidate
from compiler_agent.agents.search.emitted_names import with_emitted_names
from compiler_agent.agents.search.expressions import (
    Apply,
    Constant,
    Contract,
    Expression,
    Load,
    Reduce,
    SizeValue,
)
from compiler_agent.agents.search.graph import trace_task
from compiler_agent.agents.search.program import NoProgram, Program
from compiler_agent.agents.search.regions import Region, regions_of
from compiler_agent.agents.search.schedule import Schedule
from compiler_agent.agents.search.staging import write_program

FUNCTIONS = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "neg": torch.neg, "exp": torch.exp,
    "sigmoid": torch.sigmoid, "rsqrt": torch.rsqrt, "where": torch.where, "logical_not": torch.logical_not,
    "nonzero": lambda x: x != 0,
}  # fmt: skip


def quotients(dtype: str) -> KernelTask:
    """Swish with a gate outside, and a product with a reciprocal."""
    reference = """
def reference(x, y):
    return torch.reciprocal(y) * x, torch.sigmoid(x) * (x + y)
"""
    inputs = [activation(name, "tokens", 67, dtype=dtype) for name in ("x", "y")]
    outputs = [tensor(name, "tokens", 67, dtype=dtype) for name in ("ratio", "gated")]
    return make_task("quotients", reference, inputs, outputs, [{"tokens": 3}])


def normed_linear(dtype: str) -> KernelTask:
    reference = """
def reference(x, norm, weight):
    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * norm
    return torch.nn.functional.linear(normed, weight)
"""
    inputs = [activation("x", "tokens", 96, dtype=dtype), parameter("norm", 96), parameter("weight", 83, 96)]
    return make_task("normed_linear", reference, inputs, [tensor("y", "tokens", 83)], [{"tokens": 1}, {"tokens": 5}])


def regions_in(task: KernelTask) -> list[Region]:
    graph = trace_task(with_emitted_names(task))
    return [
        region for spec, output in zip(task.outputs, graph.outputs, strict=True) for region in regions_of(spec, output)
    ]


def variants_of(task: KernelTask) -> Mapping[str, Variant]:
    return variants([region.value for region in regions_in(task)])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (rmsnorm, {}),
        (quotients, {"exact": {"x * (1 / y) as a quotient", "x * sigmoid(y) as a quotient"}}),
        (silu_gate, {"exact": {"x * sigmoid(y) as a quotient"}}),
        (softmax, {"reassociated": {"maximum and sum of exponentials in one pass"}}),
        (masked_softmax, {"reassociated": {"maximum and sum of exponentials in one pass"}}),
        (
            layernorm,
            {
                "shifted": {"variance in one pass around the first element"},
                "cancelling": {"variance as mean of squares less square of mean", "mean without a shift"},
            },
        ),
        (normed_linear, {"reassociated": {"products regrouped", "factors out of products"}}),
    ],
)
def test_the_rewrites_that_each_op_gains_from(make, expected):
    found = variants_of(make("float32"))
    assert {name: set(variant.rewrites) for name, variant in found.items()} == expected
    told = {rewriting.name: rewriting.accuracy.name.lower() for rewriting in REWRITINGS}
    for name, variant in found.items():
        assert name in {told[rewrite] for rewrite in variant.rewrites}, "of the class that it is named after"


@pytest.mark.parametrize("make", [quotients, silu_gate, softmax, masked_softmax, layernorm, normed_linear, mlp_block])
def test_variants_have_the_same_values(make):
    task = make("float32")
    regions, found = regions_in(task), variants_of(task)
    assert found
    generator = torch.Generator().manual_seed(0)
    axes = {axis: 2 + place for place, axis in enumerate(task.axes)}
    inputs = {
        spec.name: torch.randn(spec.sizes(axes), generator=generator, dtype=torch.float64) for spec in task.inputs
    }
    inputs = {name: (value > 0).double() if name == "mask" else value for name, value in inputs.items()}
    for place, region in enumerate(regions):
        at = {loop.variable: torch.tensor(int(loop.high.subs(sizes_of(axes))) // 2) for loop in region.loops}
        at |= {symbol: torch.tensor(size) for symbol, size in sizes_of(axes).items()}
        exact = evaluate(region.value, inputs, at)
        assert torch.isclose(evaluate(with_common_variables(region.value), inputs, at), exact, rtol=1e-14)
        for variant in found.values():
            assert torch.isclose(evaluate(variant.values[place], inputs, at), exact, rtol=1e-9)


def sizes_of(axes: dict[str, int]) -> dict[sympy.Symbol, int]:
    return {sympy.Symbol(axis, integer=True, positive=True): size for axis, size in axes.items()}


def evaluate(
    expression: Expression, inputs: Mapping[str, torch.Tensor], at: Mapping[sympy.Symbol, torch.Tensor], depth: int = 0
) -> torch.Tensor:
    """The value at indices that broadcast; a bound variable runs along a first dim of its own, of `depth` + 1."""

    def number(index: sympy.Expr) -> torch.Tensor:
        return torch.as_tensor(sympy.lambdify(list(at), index, "math")(*at.values()))

    def over(variable: sympy.Symbol, low: sympy.Expr, high: sympy.Expr, body: Expression) -> torch.Tensor:
        places = torch.arange(int(number(low)), int(number(high))).reshape(-1, *[1] * depth)
        values = evaluate(body, inputs, {**at, variable: places}, depth + 1)
        return values.broadcast_to(torch.broadcast_shapes(values.shape, places.shape))

    match expression:
        case Load(buffer=buffer, index=index):
            return inputs[buffer][tuple(number(part) for part in index)]
        case Constant(value=value):
            return torch.tensor(value, dtype=torch.float64)
        case SizeValue(size=size):
            return number(size).double()
        case Apply(function=function, arguments=arguments):
            return FUNCTIONS[function](*(evaluate(argument, inputs, at, depth) for argument in arguments))
        case Reduce(kind=kind, variable=variable, low=low, high=high, body=body):
            values = over(variable, low, high, body)
            by_kind = {"sum": values.sum(0), "max": values.amax(0), "min": values.amin(0)}
            by_kind["sum_exp"] = (values - values.amax(0)).exp().sum(0)
            return by_kind[kind.value]
        case Contract(variable=variable, extent=extent, left=left, right=right):
            return over(variable, sympy.Integer(0), extent, Apply("mul", (left, right))).sum(0)


def program_of(task: KernelTask) -> Program:
    program = write_program(task)
    assert not isinstance(program, NoProgram), program.reason
    return program


@pytest.mark.parametrize("make", [quotients, silu_gate, softmax, masked_softmax, layernorm, normed_linear, mlp_block])
@pytest.mark.parametrize("width", [pytest.param(8, marks=pytest.mark.slow), 16])
def test_kernels_are_as_accurate_as_their_class_says(make, width, tmp_path: Path):
    task = make("float32")
    program = program_of(task)
    assert program.others
    for algebra, other in program.others.items():
        candidate = emit_candidate(program, Schedule(vector_width=width, algebra=algebra))
        assert all(f"// Rewritten: {rewrite}." in candidate.source for rewrite in other.rewrites)
        worst = worst_error_in_bounds(task, CompiledKernel(task, candidate, tmp_path))
        assert (worst < 1.0) == (algebra != "cancelling"), f"{algebra}: {worst} of what is allowed"


def test_one_pass_finds_infinities_as_two_do(tmp_path: Path):
    task = softmax("float32")
    (spec,) = task.inputs
    axes = dict.fromkeys(task.axes, 5)
    scores = torch.randn(spec.sizes(axes))
    rows = scores.view(-1, scores.shape[-1])
    rows[0], rows[1, 1], rows[2, :3], rows[3, 2] = -math.inf, math.inf, -math.inf, math.nan
    kernel = CompiledKernel(task, emit_candidate(program_of(task), Schedule(algebra="reassociated")), tmp_path)
    (got,) = kernel({spec.name: scores}, axes).values()
    torch.testing.assert_close(got, scores.softmax(-1), equal_nan=True)


def test_what_is_found_does_not_depend_on_the_time():
    assert variants_of(mlp_block("float32")) == variants_of(mlp_block("float32"))


def test_a_graph_that_grows_too_large_is_searched_as_it_is(monkeypatch):
    monkeypatch.setattr(saturation, "MOST_TERMS", 10)
    saturated = variants_of(layernorm("float32"))
    assert set(saturated) <= {"exact", "reassociated", "shifted", "cancelling"}


def test_only_the_number_of_places_makes_a_mean():
    """A sum over one less than its places has a variance in one pass too, but another one."""
    reference = """
def reference(x):
    centred = x - x.sum(-1, keepdim=True) / 66
    return centred.pow(2).sum(-1, keepdim=True) * x
"""
    inputs, outputs = [activation("x", "tokens", 67)], [tensor("y", "tokens", 67)]
    assert not variants_of(make_task("uncentred", reference, inputs, outputs, [{"tokens": 3}]))
