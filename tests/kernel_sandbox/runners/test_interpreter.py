"""Triton's interpreter as repaired: it computes what a GPU does, and shows races between programs."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")


@pytest.fixture(scope="module")
def probes() -> dict[str, object]:
    script = Path(__file__).parent / "interpreter_probes.py"
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum_of_bfloat16", [256.0]),
        # In pairs; one after the other 128 tenths make 12.80000... of another last place.
        ("sum_down_columns", [128 * torch.tensor(0.1).double().item()] * 2),
        ("all_sums", [496.0, 28.0, 92.0, 156.0, 220.0]),
        ("cumulative", [3, 4, 8, 9, 14, 23, 25, 31]),
        ("cumulative_reversed", [31, 28, 27, 23, 22, 17, 8, 6]),
        ("cumulative_bfloat16", [3, 4, 8, 9, 14, 23, 25, 31]),
        ("loop_indices", [0.5, 1.0, 1.5]),
        ("rounded_to_float16", [2048.0]),
        ("first_largest", [5.0, 1.0]),
        ("cumulative_by_branch", [3, 3, 4, 4, 5, 9, 9, 9]),
        ("recurrence", [3, 7, 18, 37, 79, 167, 336, 678]),
        ("product_with_an_argument_is_float32", True),
        ("writes_one_value", None),
        ("adds_atomically", None),
    ],
)
def test_computes_as_a_gpu_does(probes: dict[str, object], name: str, expected: object) -> None:
    assert probes[name] == expected


@pytest.mark.parametrize(("name", "diagonal"), [("dot_tf32", 1.0), ("dot_ieee", 1 + 2**-12), ("dot_bfloat16", 3.0)])
def test_dot_multiplies_in_the_precision_that_it_is_asked_for(
    probes: dict[str, object], name: str, diagonal: float
) -> None:
    assert torch.equal(torch.tensor(probes[name]), torch.eye(16) * diagonal)


def test_a_load_leaves_masked_elements_undefined(probes: dict[str, object]) -> None:
    values = probes["masked"]
    assert isinstance(values, list)
    assert values[:2] == [1.0, 1.0]
    assert all(math.isnan(value) for value in values[2:])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("writes_one_place", "two stores of different values"),
        ("scatters_twice", "two stores of different values"),
        ("reads_a_neighbour", "loads what another one stores"),
    ],
)
def test_a_race_between_programs_is_found(probes: dict[str, object], name: str, message: str) -> None:
    assert message in str(probes[name])
