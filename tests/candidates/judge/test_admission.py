"""Tasks whose check would pass wrong kernels are not admitted; good tasks are."""

import pytest
from judge_tasks import RMSNORM, input_spec, make_task, output_spec
from test_honest_kernels import LINEAR, STATE_TASK

from candidates.judge.admission import find_weaknesses
from candidates.task import ElementType, ErrorBound, KernelTask

ARGMAX = make_task(
    "argmax",
    "def reference(x):\n    return x.argmax(-1)\n",
    [input_spec("x", ("rows", 16))],
    [output_spec("y", ("rows",), ElementType.INT64)],
)
SOFTMAX = make_task(
    "softmax",
    "def reference(x):\n    return torch.softmax(x, -1)\n",
    [input_spec("x", ("rows", 4096))],
    [output_spec("y", ("rows", 4096))],
)


@pytest.mark.parametrize("task", [RMSNORM, LINEAR, STATE_TASK, ARGMAX, SOFTMAX], ids=lambda task: task.op)
def test_admits(task: KernelTask) -> None:
    assert find_weaknesses(task) == []


def test_refuses_a_bound_that_lets_zeros_pass() -> None:
    loose = RMSNORM.model_copy(update={"error_bound": ErrorBound(scaled_error=1.0)})
    weaknesses = find_weaknesses(loose)
    assert "a wrong result passes: y: zeros" in weaknesses
    assert "a wrong result passes: inputs rounded to bfloat16" in weaknesses


def test_refuses_a_bound_that_pytorch_itself_misses() -> None:
    tight = RMSNORM.model_copy(update={"error_bound": ErrorBound(scaled_error=0.0)})
    assert any(weakness.startswith("a right result fails (PyTorch") for weakness in find_weaknesses(tight))


def test_refuses_a_result_that_is_always_the_same() -> None:
    task = make_task(
        "softmax_of_one",
        "def reference(x):\n    return torch.softmax(x, -1)\n",
        [input_spec("x", ("rows", 1))],
        [output_spec("y", ("rows", 1))],
    )
    assert "y does not depend on the inputs" in find_weaknesses(task)


def test_refuses_an_op_with_a_constant_result() -> None:
    task = make_task(
        "mean_of_softmax",
        "def reference(x):\n    return torch.softmax(x, -1).mean(-1, keepdim=True).repeat(1, 2)\n",
        [input_spec("x", ("rows", 64))],
        [output_spec("y", ("rows", 2))],
    )
    assert any("its mean everywhere" in weakness for weakness in find_weaknesses(task))
