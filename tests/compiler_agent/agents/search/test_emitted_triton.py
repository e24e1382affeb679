"""Emitted Triton in Triton's interpreter against the float64 oracle: every program class, both float types, odd sizes,
schedules drawn at random. How fast it is on a device, nothing here can say."""

import functools
import random
from collections.abc import Callable, Iterator

import pytest
import torch
from compiled_kernel import activation, make_task, parameter, tensor, worst_error_in_bounds
from interpreted_kernel import InterpretedKernel, TritonInterpreter
from test_emitted_kernels import ROWS, TASKS, linear_with_bias, masked_softmax, mlp_block, residual_rmsnorm, rope

from candidates.candidate import LanguageName
from candidates.inputs import Distribution
from candidates.languages.triton import TritonLanguage
from candidates.languages.triton_source import refuse_source
from candidates.task import KernelTask
from compiler_agent.agents.search.agent import naive_kernel
from compiler_agent.agents.search.emit_triton import PLAIN, emit_triton, write_triton_program
from compiler_agent.agents.search.program import NoProgram, Program
from compiler_agent.agents.search.triton_schedule import TritonSchedule
from compiler_agent.agents.search.triton_space import triton_space

pytest.importorskip("triton", reason="Triton is not installed")

FEW = (Distribution.NORMAL, Distribution.LARGE, Distribution.CONSTANT_ROWS)


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonInterpreter]:
    process = TritonInterpreter(tmp_path_factory.mktemp("kernels"))
    yield process
    process.close()


PROGRAMS: dict[str, Program] = {}


@functools.cache
def task_of(make: Callable[[str], KernelTask], dtype: str) -> KernelTask:
    return make(dtype)


def program_of(task: KernelTask) -> Program:
    if task.id not in PROGRAMS:
        program = write_triton_program(task)
        assert not isinstance(program, NoProgram), program.reason
        PROGRAMS[task.id] = program
    return PROGRAMS[task.id]


def error_of(
    task: KernelTask,
    schedule: TritonSchedule,
    interpreter: TritonInterpreter,
    distributions: tuple[Distribution, ...] = FEW,
) -> float:
    candidate = emit_triton(program_of(task), schedule)
    return worst_error_in_bounds(task, InterpretedKernel(task, candidate, interpreter), distributions)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("make", TASKS)
def test_emitted_triton_stays_inside_the_error_bound(make, dtype: str, interpreter: TritonInterpreter) -> None:
    distributions = tuple(Distribution) if dtype == "float32" else FEW
    assert error_of(task_of(make, dtype), TritonSchedule(), interpreter, distributions) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [residual_rmsnorm, masked_softmax, rope, linear_with_bias, mlp_block])
def test_any_legal_schedule_gives_the_same_values(make, seed: int, interpreter: TritonInterpreter) -> None:
    task = task_of(make, "bfloat16" if seed % 2 else "float32")
    program = program_of(task)
    space = triton_space(program)
    draw = random.Random(f"{task.op} {seed}")
    schedule = space.schedule()
    for _ in range(200):
        drawn = space.schedule(**{field: draw.choice(values) for field, values in space.choices.items()})
        if space.is_legal(drawn):
            schedule = drawn
            break
    kernel = InterpretedKernel(task, emit_triton(program, schedule), interpreter)
    assert worst_error_in_bounds(task, kernel, FEW) <= 1.0, schedule


@pytest.mark.parametrize("make", [residual_rmsnorm, masked_softmax, mlp_block])
def test_starting_kernel_is_correct_and_reads_back_from_its_own_text(make, interpreter: TritonInterpreter) -> None:
    task = task_of(make, "float32")
    candidate = naive_kernel(task, LanguageName.TRITON)
    assert not isinstance(candidate, NoProgram)
    assert worst_error_in_bounds(task, InterpretedKernel(task, candidate, interpreter), FEW) <= 1.0
    assert TritonLanguage().parse_source(candidate.source, "kernel.py") == candidate


def test_emitted_source_says_nothing_that_the_language_forbids() -> None:
    for task in (*(task_of(make, "bfloat16") for make in TASKS), *of_few_dims()):
        program = program_of(task)
        for schedule in (*triton_space(program).first_schedules(), PLAIN):
            refuse_source(task, emit_triton(program, schedule))


@pytest.mark.parametrize("few_rows", [0, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_error_of_a_deep_contraction_is_at_most_twice_that_of_pytorch(
    few_rows: int, dtype: str, interpreter: TritonInterpreter
) -> None:
    reference = "def reference(x, weight):\n    return torch.nn.functional.linear(x, weight)\n"
    inputs = [activation("x", "tokens", 1111, dtype=dtype), parameter("weight", 70, 1111, dtype=dtype)]
    task = make_task("deep", reference, inputs, [tensor("y", "tokens", 70, dtype=dtype)], ROWS)
    twice = task.model_copy(update={"error_bound": task.error_bound.model_copy(update={"factor": 2.0})})
    schedule = TritonSchedule.model_validate({"few_rows": few_rows, "few_split": 4 if few_rows else 1})
    assert error_of(twice, schedule, interpreter) <= 1.0


@pytest.mark.parametrize("schedule", [TritonSchedule(), PLAIN, TritonSchedule(sweep="blocks", block=256, warps=8)])
def test_sum_over_a_long_row_of_equal_values_stays_inside_the_error_bound(
    schedule: TritonSchedule, interpreter: TritonInterpreter
) -> None:
    reference = "def reference(x):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)\n"
    inputs, outputs = [activation("x", "tokens", "columns")], [tensor("y", "tokens", "columns")]
    workloads = [{"tokens": 3, "columns": size} for size in (49152, 517)]
    task = make_task("long_rows", reference, inputs, outputs, workloads)
    assert error_of(task, schedule, interpreter, (Distribution.NORMAL, Distribution.CONSTANT_ROWS)) <= 1.0


def test_functions_keep_infinities_nan_and_denormals(interpreter: TritonInterpreter) -> None:
    reference = """
def reference(x):
    return torch.exp(x), torch.sigmoid(x), torch.tanh(x), torch.erf(x), torch.relu(x), x.amax(-1), x.amin(-1)
"""
    names = ("exponential", "logistic", "bent", "error", "rectified")
    outputs = [
        *(tensor(name, "tokens", "width") for name in names),
        tensor("most", "tokens"),
        tensor("least", "tokens"),
    ]
    task = make_task(
        "functions", reference, [activation("x", "tokens", "width")], outputs, [{"tokens": 1, "width": 37}]
    )
    inf, nan = float("inf"), float("nan")
    special = [0.0, -0.0, inf, -inf, nan, 1e-40, -1e-40, 88.7, 88.8, 89.5, -87.5, -100.0, -103.9, -104.5, 1e30, -1e30]
    x = torch.tensor([special + torch.linspace(-9, 9, 21).tolist()])
    for schedule in (TritonSchedule(), PLAIN):
        candidate = emit_triton(program_of(task), schedule)
        memory: dict[str, torch.Tensor] = {
            spec.name: torch.zeros(spec.sizes({"tokens": 1, "width": 37})) for spec in task.outputs
        }
        (_, *got, _, _), _ = interpreter.call(candidate, [x, *memory.values(), 1, 37], [])
        results = dict(zip(memory, got, strict=True))
        functions = {"exponential": torch.exp, "logistic": torch.sigmoid, "bent": torch.tanh, "error": torch.erf}
        for name, function in (functions | {"rectified": torch.relu}).items():
            exact = function(x.double()).float()
            # Where e^-x overflows, 1 / (1 + e^-x) is zero, as in PyTorch itself.
            smallest = 1e-38 if name == "logistic" else 2e-45
            torch.testing.assert_close(results[name], exact, rtol=3e-7, atol=smallest, equal_nan=True)
        assert torch.isnan(results["most"]).all()
        assert torch.isnan(results["least"]).all()


POWERS = """
def reference(x):
    y = x.abs() + 0.5
    return x ** 5, y ** -1.5, y ** 2.5, x ** -4.0
"""
TRIGONOMETRY = """
def reference(x):
    return torch.sin(x), torch.cos(x), torch.log(x.abs() + 1.0), torch.minimum(x, -x), x.clamp(-1, 0.5), x > 0
"""
MOMENTS = "def reference(x):\n    return x.amin(-1), x.mean(-1), x.var(-1)\n"
CONSTANTS = """
def reference(x):
    return torch.full_like(x, 2.5), torch.exp(torch.full_like(x, 2.0)) * x
"""


@functools.cache
def of_few_dims() -> list[KernelTask]:
    """No rows, no columns, integers, constants, names that mean something to Triton."""
    column = [tensor(name, "tokens", 33) for name in "abcd"]
    trigonometry = [tensor(name, "tokens", 33) for name in ("s", "c", "l", "m", "b")]
    return [
        make_task("row", "def reference(x):\n    return x - x.amax(0, True)\n", [activation("x", "n")],
                  [tensor("y", "n")], [{"n": 1}, {"n": 1000}]),
        make_task("total", "def reference(x):\n    return x.sum(0)\n", [activation("x", "n")], [tensor("y")],
                  [{"n": 1}, {"n": 1000}]),
        make_task("columns", "def reference(x):\n    return x.sum(0)\n", [activation("x", "tokens", "width")],
                  [tensor("y", "width")], [{"tokens": 1, "width": 2}, {"tokens": 300, "width": 15}]),
        make_task("moments", MOMENTS, [activation("x", "tokens", "width")], [tensor(name, "tokens") for name in "abc"],
                  [{"tokens": 1, "width": 2}, {"tokens": 3, "width": 1500}]),
        make_task("powers", POWERS, [activation("x", "tokens", 33)], column, ROWS),
        make_task("trigonometry", TRIGONOMETRY, [activation("x", "tokens", 33)],
                  [*trigonometry, tensor("p", "tokens", 33, dtype="bool")], ROWS),
        make_task("constants", CONSTANTS, [activation("x", "tokens", 33, dtype="bfloat16")],
                  [tensor(name, "tokens", 33, dtype="bfloat16") for name in "ab"], ROWS),
        make_task("integers", "def reference(x, p):\n    return x * p.to(torch.float32)[:, None]\n",
                  [activation("x", "tokens", 33), activation("p", "tokens", dtype="int64")],
                  [tensor("y", "tokens", 33)], ROWS),
        make_task("fixed", "def reference(x, w):\n    return torch.nn.functional.linear(x, w)\n",
                  [activation("x", 3, 40), parameter("w", 24, 40)], [tensor("y", 3, 24)], [{}]),
        make_task("addmm", "def reference(x, w, b):\n    return torch.addmm(b, x, w)\n",
                  [activation("x", "tokens", 40), parameter("w", 40, 24), parameter("b", 24)],
                  [tensor("y", "tokens", 24)], ROWS),
        make_task("transpose", "def reference(x):\n    return x.transpose(-1, -2).contiguous() * 2\n",
                  [activation("x", "tokens", 16, 24)], [tensor("y", "tokens", 24, 16)], ROWS),
        make_task("names", "def reference(grid, input, device):\n    return grid * input + device\n",
                  [activation(name, "lambda", 5) for name in ("grid", "input", "device")], [tensor("tl", "lambda", 5)],
                  [{"lambda": 3}]),
    ]  # fmt: skip


def test_few_dims_odd_types_and_clashing_names(interpreter: TritonInterpreter) -> None:
    for task in of_few_dims():
        for schedule in (TritonSchedule(), PLAIN):
            assert error_of(task, schedule, interpreter) <= 1.0, task.op


def test_a_power_that_products_do_not_give_has_no_program() -> None:
    reference = "def reference(x):\n    return (x.abs() + 1) ** 0.3\n"
    task = make_task("power", reference, [activation("x", "tokens", 5)], [tensor("y", "tokens", 5)], ROWS)
    program = write_triton_program(task)
    assert isinstance(program, NoProgram)
    assert "pow" in program.reason


def test_products_of_bfloat16_are_multiplied_in_it_and_added_in_float32() -> None:
    source = emit_triton(program_of(task_of(mlp_block, "bfloat16")), TritonSchedule()).source
    assert "scratch0 = torch.empty(200 * tokens, dtype=torch.bfloat16" in source
    assert "product = tl.dot(left, right, product)\n" in source
    assert "float64" not in source
    exact = emit_triton(program_of(task_of(mlp_block, "float32")), TritonSchedule()).source
    assert exact.count('input_precision="ieee"') == exact.count("tl.dot(")


def test_emission_is_deterministic() -> None:
    once, again = (write_triton_program(task_of(mlp_block, "float32")) for _ in range(2))
    assert not isinstance(once, NoProgram)
    assert not isinstance(again, NoProgram)
    assert emit_triton(once, TritonSchedule()) == emit_triton(again, TritonSchedule())
