"""compare_results: the bound, poison and non-finite values, element by element."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judge_tasks import RMSNORM, input_spec, make_task, output_spec

from candidates.error_bound import allowed_error, find_errors_nearby
from candidates.inputs import Distribution, draw_inputs
from candidates.judge.outputs import Fault, check_outputs, compare_results, find_unwritten, is_poison, poison
from candidates.reference import run_oracle, run_reference
from candidates.task import ElementType, ErrorBound, KernelTask
from candidates.verdict import Reason, Rejected

IDENTITY = make_task(
    "identity",
    "def reference(x):\n    return x.clone()\n",
    [input_spec("x", ("rows", 4))],
    [output_spec("y", ("rows", 4))],
)
GELU = make_task(
    "gelu",
    "def reference(x):\n    return torch.nn.functional.gelu(x, approximate='tanh')\n",
    [input_spec("x", ("rows", 64))],
    [output_spec("y", ("rows", 64))],
)


def with_error(task: KernelTask, scaled_error: float) -> KernelTask:
    return task.model_copy(update={"error_bound": ErrorBound(scaled_error=scaled_error, factor=4.0)})


@given(st.floats(-(2.0**100), 2.0**100, width=32), st.integers(0, 3))
def test_without_scaled_error_one_ulp_is_allowed_and_two_are_not(value: float, steps: int) -> None:
    exact = torch.full((1, 4), value, dtype=torch.float64)
    got = torch.full((1, 4), value, dtype=torch.float32)
    for _ in range(steps):
        got = torch.nextafter(got, torch.tensor(math.copysign(math.inf, value)))
    found = compare_results(with_error(IDENTITY, 0.0), {"x": got}, {"y": exact}, {"y": got})
    # Stepping away from zero, the spacing is that of `value` or larger.
    assert isinstance(found, Fault) == (steps > 1)


@given(st.floats(0.0, 3.0))
def test_the_share_of_the_bound_is_told(share: float) -> None:
    exact = torch.tensor([[1.0, 0.0, 0.0, 1000.0]], dtype=torch.float64)
    got = exact.float()
    got[0, 1] = share * 4e-3 * 1000.0
    found = compare_results(with_error(IDENTITY, 1e-3), {"x": got}, {"y": exact}, {"y": got})
    if isinstance(found, Fault):
        assert share > 0.999
        assert found.worst is not None
        assert found.worst.index == (0, 1)
        assert found.share_of_elements_wrong == 0.25
    else:
        assert found == pytest.approx(share, rel=1e-3, abs=1e-6)


def test_the_bound_is_of_the_row_not_of_the_tensor() -> None:
    exact = torch.tensor([[1000.0] * 4, [1.0] * 4], dtype=torch.float64)
    got = exact.float()
    got[1, 2] += 0.1
    assert isinstance(compare_results(with_error(IDENTITY, 1e-3), {"x": got}, {"y": exact}, {"y": got}), Fault)


@pytest.mark.parametrize(
    ("exact", "got", "is_right"),
    [
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.nan, math.inf, False),
        (1.0, math.inf, False),
        (1.0, math.nan, False),
        (math.nan, 1.0, False),
        (1e300, math.inf, True),
    ],
)
def test_non_finite_values_must_agree(exact: float, got: float, is_right: bool) -> None:
    found = compare_results(
        with_error(IDENTITY, 1e-3),
        {"x": torch.tensor([[1.0, got, 2.0, 3.0]])},
        {"y": torch.tensor([[1.0, exact, 2.0, 3.0]], dtype=torch.float64)},
        {"y": torch.tensor([[1.0, got, 2.0, 3.0]])},
    )
    assert isinstance(found, Fault) != is_right
    if isinstance(found, Fault):
        assert found.reason is Reason.WRONG_NON_FINITE


@pytest.mark.parametrize("element_type", list(ElementType))
def test_poison_is_found_where_it_was_left(element_type: ElementType) -> None:
    spec = output_spec("y", (2, 3), element_type)
    dtype = getattr(torch, element_type.value)
    calls = [torch.zeros(2, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype)]
    assert find_unwritten(spec, calls[0], calls[1]) is None
    for pattern, tensor in enumerate(calls):
        poison(tensor[1:, 2:], element_type, pattern)
        assert is_poison(tensor, element_type, pattern).sum() == 1
    fault = find_unwritten(spec, calls[0], calls[1])
    assert fault is not None
    assert fault.share_of_elements_wrong == pytest.approx(1 / 6)
    assert "[1, 2]" in fault.message


@pytest.mark.parametrize("value", [-3.2, -3.6, -4.0, -4.4])
@pytest.mark.parametrize(("wrong_by", "is_right"), [(0.0, True), (0.02, False)])
def test_a_row_that_nearly_cancels_may_err_as_pytorch_does_there(value: float, wrong_by: float, is_right: bool) -> None:
    """1 + tanh(...) has lost most of its digits: no share of the row's scale is left of them."""
    x = torch.stack([torch.full((64,), value), torch.linspace(-3, 3, 64)])
    exact = run_oracle(GELU, {"x": x})
    got = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))
    got[0] *= 1 + wrong_by
    allowed = allowed_error(GELU.error_bound, exact["y"], torch.float32)
    assert bool(((got.double() - exact["y"]).abs() > allowed)[0].any())
    found = compare_results(GELU, {"x": x}, exact, {"y": got})
    assert isinstance(found, Fault) != is_right


def test_a_step_is_not_excused_where_pytorch_takes_the_other_side() -> None:
    task = make_task(
        "step",
        "def reference(x, z):\n    difference = x * 0.3 - z * 0.7\n"
        "    return difference + 0.01 * torch.sign(difference)\n",
        [input_spec("x", ("rows", 64)), input_spec("z", ("rows", 64))],
        [output_spec("y", ("rows", 64))],
    )
    inputs = {"x": torch.linspace(1, 2, 64).repeat(2, 1), "z": torch.linspace(1, 2, 64).repeat(2, 1)}
    inputs["z"][0] *= 0.3 / 0.7
    exact = run_oracle(task, inputs)
    assert float(find_errors_nearby(task, inputs)["y"][0]) > 0.01
    got = exact["y"].float()
    assert isinstance(compare_results(task, inputs, exact, {"y": got}), float)
    got[0] = -got[0]
    assert isinstance(compare_results(task, inputs, exact, {"y": got}), Fault)


def test_pytorch_itself_is_right_by_its_own_bound() -> None:
    workload = RMSNORM.workloads[1]
    for distribution in Distribution:
        inputs = draw_inputs(RMSNORM, workload, distribution, np.random.default_rng(5))
        share = check_outputs(RMSNORM, workload, inputs, run_reference(RMSNORM, inputs), seed=5)
        assert isinstance(share, float)
        assert share <= 1


def test_a_wrong_call_is_rejected_with_its_workload_and_seed() -> None:
    workload = RMSNORM.workloads[1]
    inputs = draw_inputs(RMSNORM, workload, Distribution.NORMAL, np.random.default_rng(5))
    wrong = {name: value.float() + 1 for name, value in run_oracle(RMSNORM, inputs).items()}
    verdict = check_outputs(RMSNORM, workload, inputs, wrong, seed=5, distribution="normal")
    assert isinstance(verdict, Rejected)
    assert (verdict.reason, verdict.workload, verdict.seed) == (Reason.WRONG_VALUES, "rows=8", 5)
