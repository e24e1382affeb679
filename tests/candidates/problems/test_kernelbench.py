"""KernelBench files become tasks that hold nothing of the file's own Python."""

from pathlib import Path

import pytest
from suite_files import BATCH_NORM, CROSS_ENTROPY, GATED_MLP

from candidates.extraction import Obstacle
from candidates.problems.kernelbench import read_problem
from candidates.problems.problem import ProblemError
from candidates.problems.problem_task import make_task
from candidates.problems.read import read_problems
from candidates.task import InputRole, KernelTask
from kernel_sandbox.bubblewrap import BubblewrapSandbox

SANDBOX = BubblewrapSandbox()


def import_source(folder: Path, source: str) -> KernelTask | Obstacle:
    path = folder / "7_Problem.py"
    path.write_text(source)
    return make_task(read_problem(path), SANDBOX, device_id="cpu-test", threads=1)


def task_of(folder: Path, source: str) -> KernelTask:
    task = import_source(folder, source)
    assert isinstance(task, KernelTask), task
    return task


def test_parameters_are_inputs_and_numbers_are_built_in(tmp_path: Path) -> None:
    task = task_of(tmp_path, GATED_MLP)
    assert [(spec.name, spec.role, spec.shape) for spec in task.inputs] == [
        ("gate_weight", InputRole.PARAMETER, (10, 24)),
        ("up_weight", InputRole.PARAMETER, (10, 24)),
        ("up_bias", InputRole.PARAMETER, (10,)),
        ("x", InputRole.ACTIVATION, (6, 24)),
    ]
    assert [spec.shape for spec in task.outputs] == [(6, 10)]
    assert (task.op, task.site) == ("7_Problem", "kernelbench:7_Problem.py")
    assert [(workload.name, workload.is_hidden) for workload in task.workloads] == [("scalar", False)]
    assert "* 0.5" in task.reference
    assert "class" not in task.reference


def test_integers_keep_the_range_of_the_example(tmp_path: Path) -> None:
    task = task_of(tmp_path, CROSS_ENTROPY)
    assert [(spec.name, spec.below) for spec in task.inputs] == [("predictions", None), ("targets", 7)]
    assert task.outputs[0].shape == ()


def test_buffers_are_parameters_and_training_is_off(tmp_path: Path) -> None:
    task = task_of(tmp_path, BATCH_NORM)
    parameters = {spec.name: spec.below for spec in task.inputs_of(InputRole.PARAMETER)}
    assert parameters == {
        "norm_weight": None,
        "norm_bias": None,
        "norm_running_mean": None,
        "norm_running_var": None,
        "order": 5,
    }


def test_tensors_made_on_the_way_have_their_type_and_no_place(tmp_path: Path) -> None:
    """The oracle must make them in float64, wherever it runs."""
    made = "torch.zeros(x.shape[0], 10, device=x.device) + self.up(x) * scale"
    task = task_of(tmp_path, GATED_MLP.replace("self.up(x) * scale", made))
    assert "torch.zeros([6, 10], dtype=torch.float32)" in task.reference


def test_results_that_are_views_are_row_major(tmp_path: Path) -> None:
    task = task_of(tmp_path, GATED_MLP.replace("* scale", "* scale)[:, 2:]").replace("return torch", "return (torch"))
    assert [(spec.shape, spec.dim_order) for spec in task.outputs] == [((6, 8), (0, 1))]
    assert "contiguous" in task.reference


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("torch.rand(batch_size, width)", "torch.rand(batch_size, width).cuda()"), ("get_inputs fails at line 21",)),
        (("torch.rand(batch_size, width)", "torch.rand(batch_size, width + 1)"), ("torch.export cannot follow it",)),
        (("torch.rand(batch_size, width)", "torch.rand(batch_size, width).double()"), ("float64",)),
        (("torch.rand(batch_size, width), 0.5", "'text', 0.5"), ("is a str",)),
        (("return [width, hidden]", "return [width]"), ("Model fails", "TypeError")),
        (("batch_size = 6", "batch_size = 4_000_000"), ("MiB a call", "make its sizes smaller")),
        (("batch_size = 6", "raise SystemExit('no')"), ("ended without an answer", "no")),
        (("batch_size = 6", "import no_such_library"), ("the file fails at line 15", "no_such_library")),
        (("* scale", "* scale if x.sum() > 0 else x"), ("torch.export cannot follow it",)),
        (
            ("torch.sigmoid(self.gate(x)) * self.up(x)", "torch.softmax(self.up(x), -1).mean(-1, True).repeat(1, 2)"),
            ("its check would be unsound",),
        ),
    ],
)
def test_what_cannot_be_a_task_is_an_obstacle(tmp_path: Path, change: tuple[str, str], words: tuple[str, ...]) -> None:
    obstacle = import_source(tmp_path, GATED_MLP.replace(*change))
    assert isinstance(obstacle, Obstacle), obstacle
    for word in words:
        assert word in obstacle.reason


def test_a_file_runs_in_the_sandbox_alone(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    reach = f"import socket\nopen({str(mark)!r}, 'w').write('here')\nbatch_size = 6"
    obstacle = import_source(tmp_path, GATED_MLP.replace("batch_size = 6", reach))
    assert isinstance(obstacle, Obstacle)
    assert "the file fails at line 16" in obstacle.reason
    assert not mark.exists()


def test_a_forged_answer_is_refused(tmp_path: Path) -> None:
    """What the file leaves in place of the exporter's answer is executed nowhere."""
    forged = (
        "import atexit, json, os\n"
        "answer = {'reference': 'import os\\ndef reference(x): return x', 'inputs': [], 'outputs': [], "
        "'workloads': []}\n"
        "open('answer.json', 'w').write(json.dumps(answer)); os._exit(0)"
    )
    obstacle = import_source(tmp_path, GATED_MLP.replace("batch_size = 6", forged))
    assert obstacle == Obstacle(reason="its reference is not one function")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def get_inputs(:\n", (":1:", "no Python")),
        ("def get_inputs():\n    return []\n", (":1:", "does not define Model")),
        (b"\xff\xfe", ("UTF-8",)),
    ],
)
def test_a_file_that_is_no_problem_is_the_users_fault(
    tmp_path: Path, source: str | bytes, words: tuple[str, ...]
) -> None:
    path = tmp_path / "broken.py"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    with pytest.raises(ProblemError, match=r"broken\.py") as caught:
        read_problem(path)
    for word in words:
        assert word in str(caught.value)


def test_a_folder_gives_its_problem_files_alone(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_Gated.py").write_text(GATED_MLP)
    (tmp_path / "level1" / "2_Loss.py").write_text(CROSS_ENTROPY)
    (tmp_path / "run.py").write_text("print('not a problem')\n")
    assert [problem.name for problem in read_problems(tmp_path)] == ["1_Gated", "2_Loss"]
