"""The oracle computes in float64 whatever the reference says of its own types; what it makes is on its device."""

import pytest
import torch
from judge_tasks import input_spec, make_task, output_spec
from torch.utils._device import _device_constructors

from candidates.reference import load_reference, run_oracle


@pytest.mark.parametrize("cast", ["x.float()", "x.to(torch.float32)", "x.half()", "x.bfloat16()", "x.to(torch.half)"])
def test_a_cast_of_the_reference_rounds_nothing_of_the_oracle(cast: str) -> None:
    body = f"def reference(x):\n    return ({cast} * 1.1).to(torch.float32)\n"
    task = make_task("upcast", body, [input_spec("x", ("rows", 8))], [output_spec("y", ("rows", 8))])
    x = torch.linspace(0.1, 3.0, 8).reshape(1, 8)
    exact = run_oracle(task, {"x": x})["y"]
    assert exact.dtype is torch.float64
    assert torch.equal(exact, x.double() * 1.1)
    assert task.error_bound.scaled_error > 0


@pytest.mark.parametrize(
    "name", sorted(each.__name__ for each in _device_constructors() if hasattr(torch, each.__name__))
)
def test_all_that_makes_a_tensor_gets_the_device(name: str) -> None:
    told = {}

    class Torch:
        def __getattr__(self, name: str) -> object:
            return lambda *arguments, **named: told.update({name: named["device"]})

    reference = load_reference(f"def reference(x):\n    return torch.{name}(x)\n", torch.device("meta"))
    reference.__globals__["torch"] = Torch()
    reference(torch.empty(1))
    assert told == {name: torch.device("meta")}
