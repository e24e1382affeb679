"""FlashInfer-Bench definitions become tasks; what a task cannot hold is an obstacle, a bad file the user's fault."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from suite_files import RMSNORM, RMSNORM_INPUTS, workload_line, write_rmsnorm_dataset

from candidates.extraction import Obstacle
from candidates.problems.problem import DefinitionSource, Problem, ProblemError
from candidates.problems.problem_task import make_task
from candidates.problems.read import read_problems
from candidates.task import InputRole, KernelTask
from kernel_sandbox.bubblewrap import BubblewrapSandbox

SANDBOX = BubblewrapSandbox()


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    definition = copy.deepcopy(RMSNORM)
    change(definition)
    return definition


def read_one(root: Path) -> Problem:
    (problem,) = read_problems(root)
    return problem


def make(problem: Problem) -> KernelTask | Obstacle:
    return make_task(problem, SANDBOX, device_id="cpu-test", threads=1)


def test_a_definition_is_a_task_with_its_names_and_shapes(tmp_path: Path) -> None:
    task = make(read_one(write_rmsnorm_dataset(tmp_path)))
    assert isinstance(task, KernelTask), task
    assert [(spec.name, spec.shape, spec.role) for spec in task.inputs] == [
        ("x", ("batch", 64), InputRole.ACTIVATION),
        ("weight", (64,), InputRole.ACTIVATION),
    ]
    assert [(spec.name, spec.shape) for spec in task.outputs] == [("y", ("batch", 64))]
    assert task.axes == ("batch",)
    assert "1e-05" in task.reference
    assert "assert" not in task.reference
    public = {workload.name: workload.calls_per_hour for workload in task.public_workloads}
    assert public == {"batch=3": 2.0, "batch=20": 1.0}
    assert {workload.name for workload in task.hidden_workloads} == {"batch=4", "batch=21"}


def test_a_dataset_and_its_definition_file_give_one_problem(tmp_path: Path) -> None:
    path = write_rmsnorm_dataset(tmp_path)
    assert read_one(tmp_path) == read_one(path)


def test_many_shapes_are_represented_by_a_few(tmp_path: Path) -> None:
    write_rmsnorm_dataset(tmp_path)
    lines = [workload_line(f"wl-{rows}", {"batch": rows}, RMSNORM_INPUTS) for rows in range(1, 200)]
    (tmp_path / "workloads" / "rmsnorm" / "rmsnorm_h64.jsonl").write_text("\n".join(lines))
    source = read_one(tmp_path).source
    assert isinstance(source, DefinitionSource)
    assert sum(not workload.is_hidden for workload in source.workloads) <= 16
    assert 0.9 < source.covered_share <= 1.0


def test_recorded_integers_give_the_range(tmp_path: Path) -> None:
    definition = changed(lambda d: d["inputs"].update(X={"shape": ["batch", "H"], "dtype": "int64"}))
    recorded = {"type": "safetensors", "path": "blob/x.safetensors", "tensor_key": "X"}
    write_rmsnorm_dataset(tmp_path, definition, RMSNORM_INPUTS | {"X": recorded})
    line = workload_line("wl-0", {"batch": 3}, RMSNORM_INPUTS | {"X": recorded})
    (tmp_path / "workloads" / "rmsnorm" / "rmsnorm_h64.jsonl").write_text(line)
    (tmp_path / "blob").mkdir()
    save_file({"X": torch.arange(192).reshape(3, 64)}, tmp_path / "blob" / "x.safetensors")
    source = read_one(tmp_path).source
    assert isinstance(source, DefinitionSource), source
    assert [getattr(argument, "below", None) for argument in source.arguments] == [192, None, None]


@pytest.mark.parametrize(
    ("definition", "inputs", "words"),
    [
        (changed(lambda d: d["inputs"]["X"].update(dtype="float8_e4m3fn")), {}, ("X is float8_e4m3fn",)),
        (changed(lambda d: d["axes"].update(batch={"type": "expr", "expression": "H"})), {}, ("of type expr",)),
        (RMSNORM, {"X": {"type": "custom"}}, ("X comes as custom",)),
        (RMSNORM, {"eps": {"type": "random"}}, ("scalar eps has not one value",)),
        (
            changed(lambda d: d["inputs"]["X"].update(dtype="int32")),
            {"X": {"type": "safetensors", "path": "blob/none", "tensor_key": "X"}},
            ("cannot be read", "blob/none"),
        ),
        (
            changed(lambda d: d["inputs"]["X"].update(dtype="int32")),
            {"X": {"type": "safetensors", "path": "../x", "tensor_key": "X"}},
            ("outside of the dataset",),
        ),
    ],
)
def test_what_a_task_cannot_hold_is_an_obstacle(
    tmp_path: Path, definition: dict[str, Any], inputs: dict[str, Any], words: tuple[str, ...]
) -> None:
    write_rmsnorm_dataset(tmp_path, definition, RMSNORM_INPUTS | inputs)
    source = read_one(tmp_path).source
    assert isinstance(source, Obstacle)
    for word in words:
        assert word in source.reason


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return x[:, :32]", "the definition says ['batch', 64]"),
        ("return x.to(torch.bfloat16)", "returns bfloat16"),
        ("return x, x", "returns 2 tensors"),
        ("return torch.stack([row * row.sum() for row in x])", "gives another output at batch=20"),
        ("return x[: int(weight.sum())]", "export cannot follow"),
        ("return x * torch.rand_like(x)", "gives another output"),
        ("raise KeyError('absent')", "line 2: KeyError"),
    ],
)
def test_a_reference_that_does_something_else_is_an_obstacle(tmp_path: Path, body: str, words: str) -> None:
    reference = f"import torch\ndef run(x, weight, eps): {body}\n"
    write_rmsnorm_dataset(tmp_path, RMSNORM | {"reference": reference})
    obstacle = make(read_one(tmp_path))
    assert isinstance(obstacle, Obstacle)
    assert words in obstacle.reason


def test_no_workloads_are_an_obstacle(tmp_path: Path) -> None:
    write_rmsnorm_dataset(tmp_path)
    (tmp_path / "workloads" / "rmsnorm" / "rmsnorm_h64.jsonl").unlink()
    source = read_one(tmp_path).source
    assert isinstance(source, Obstacle)
    assert "workloads/rmsnorm/rmsnorm_h64.jsonl" in source.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n  "name": "x",\n  oops\n}', ":3:3: no JSON"),
        ('{"name": NaN}', "bare word NaN"),
        (json.dumps(RMSNORM | {"axes": {}}), "axis batch"),
        (json.dumps({k: v for k, v in RMSNORM.items() if k != "outputs"}), "outputs: Field required"),
        (json.dumps(RMSNORM | {"reference": "def run(:"}), "reference:1:9: no Python"),
        (json.dumps(RMSNORM | {"reference": "x = 1"}), "no function `run`"),
    ],
)
def test_a_bad_definition_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = write_rmsnorm_dataset(tmp_path)
    path.write_text(text)
    with pytest.raises(ProblemError, match=r"rmsnorm_h64\.json") as caught:
        read_problems(tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"definition": ', "rmsnorm_h64.jsonl:2:16: no JSON"),
        ('{"definition": "rmsnorm_h64"}', "rmsnorm_h64.jsonl:2: no trace of FlashInfer-Bench: workload"),
        (workload_line("wl-9", {"rows": 3}, {}), "workload wl-9 gives no size of ['batch']"),
        (workload_line("wl-9", {"batch": 3}, {}, definition="other"), "is of other"),
    ],
)
def test_a_bad_workload_is_refused(tmp_path: Path, line: str, words: str) -> None:
    write_rmsnorm_dataset(tmp_path)
    path = tmp_path / "workloads" / "rmsnorm" / "rmsnorm_h64.jsonl"
    path.write_text(workload_line("wl-0", {"batch": 3}, RMSNORM_INPUTS) + "\n" + line + "\n")
    with pytest.raises(ProblemError) as caught:
        read_problems(tmp_path)
    assert words in str(caught.value)


def test_a_definition_outside_of_a_dataset_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rmsnorm.json").write_text(json.dumps(RMSNORM))
    with pytest.raises(ProblemError, match="DATASET/definitions"):
        read_problems(tmp_path / "rmsnorm.json")
