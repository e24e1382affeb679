"""Problems of public suites from file to judged kernel and back out, through the commands, sandbox and benchmark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ceilings_of_tests import generous_ceilings

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark
from candidates.benchmark.track import CpuTrack
from candidates.builder import Builder
from candidates.candidate import LanguageName
from candidates.languages.cpp import CppLanguage
from candidates.ledger.ledger import Ledger
from candidates.measurement import Baseline, Measurement
from candidates.verdict import Accepted, EvidenceKind
from compiler_agent.commands.judge import parse_candidate, record_evaluation
from compiler_agent.main import run_command
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from tests.candidates.problems.suite_files import (
    CROSS_ENTROPY,
    GATED_MLP,
    GATED_MLP_KERNEL,
    RMSNORM,
    RMSNORM_KERNEL,
    write_rmsnorm_dataset,
)

Command = Callable[..., dict[str, Any]]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'home' / 'ledger.sqlite'}")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path / "home"))

    def run(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
        assert run_command([*map(str, arguments), "--json"]) == code, capsys.readouterr().err
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


def write_kernel(path: Path, source: str, **values: str) -> Path:
    for name, value in values.items():
        source = source.replace(name, value)
    path.write_text(source)
    return path


def test_a_kernelbench_file_is_judged_like_any_task(command: Command, tmp_path: Path) -> None:
    problem = tmp_path / "3_Gated.py"
    problem.write_text(GATED_MLP)
    (imported,) = command("task", "import", problem)["tasks"]
    assert (imported["op"], imported["workloads"], imported["hidden_workloads"]) == ("3_Gated", ["scalar"], 0)
    right = write_kernel(tmp_path / "right.cpp", GATED_MLP_KERNEL, SCALE="0.5")
    wrong = write_kernel(tmp_path / "wrong.cpp", GATED_MLP_KERNEL, SCALE="0.50001")
    assert command("judge", imported["id"], right)["verdict"]["outcome"] == "accepted"
    verdict = command("judge", imported["id"], wrong, code=1)["verdict"]
    assert (verdict["outcome"], verdict["reason"]) == ("rejected", "wrong_values")
    exported = command("task", "export", imported["id"], "--to", tmp_path / "dataset")
    assert (len(exported["solutions"]), len(exported["left_out"])) == (1, 1)
    assert exported["traces"] == 0


def test_a_definition_is_judged_measured_and_written_back(command: Command, ledger: Ledger, tmp_path: Path) -> None:
    definition = write_rmsnorm_dataset(tmp_path / "theirs")
    (imported,) = command("task", "import", tmp_path / "theirs")["tasks"]
    assert imported["workloads"] == ["batch=3", "batch=20"]
    right = write_kernel(tmp_path / "right.cpp", RMSNORM_KERNEL, EPS="1e-5")
    wrong = write_kernel(tmp_path / "wrong.cpp", RMSNORM_KERNEL, EPS="1e-3")
    assert command("judge", imported["id"], right)["verdict"]["outcome"] == "accepted"
    assert command("judge", imported["id"], wrong, code=1)["verdict"]["reason"] == "wrong_values"
    measure(ledger, imported["id"], right, tmp_path)

    exported = command("task", "export", imported["id"], "--to", tmp_path / "ours")
    assert exported["traces"] == 3
    written = json.loads(Path(exported["definition"]).read_text())
    assert written == RMSNORM
    assert command("task", "import", tmp_path / "ours")["tasks"] == [imported]

    exported = command("task", "export", imported["id"], "--to", tmp_path / "theirs", "--rejected")
    assert exported["definition"] == str(definition)
    lines = (tmp_path / "theirs/traces/compiler-agent/rmsnorm/rmsnorm_h64.jsonl").read_text().splitlines()
    statuses = {json.loads(line)["evaluation"]["status"] for line in lines}
    assert statuses == {"PASSED", "INCORRECT_NUMERICAL"}


def measure(ledger: Ledger, task_id: str, kernel: Path, folder: Path) -> None:
    """What `bench` does, without torch.compile and the calibration of this machine."""
    task, candidate, sandbox = ledger.task(task_id), parse_candidate(kernel), BubblewrapSandbox()
    built = Builder(sandbox, {LanguageName.CPP: CppLanguage()}, slots=1).build(task, candidate)
    assert isinstance(built, bytes)
    with BaselinePool(folder / "compile") as pool:
        benchmark = Benchmark(
            CpuTrack(sandbox, pool, folder),
            generous_ceilings(),
            cache_folder=folder,
            baselines=(Baseline.EAGER, Baseline.EAGER_OUT),
        )
        measured = benchmark.race(task, candidate, built, most_s=3.0)
    assert isinstance(measured, Measurement), measured
    accepted = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=1, worst_error_in_bounds=0.1)
    record_evaluation(ledger, task, candidate, accepted, measured)


def test_a_folder_tells_tasks_and_obstacles_apart(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "1_Loss.py").write_text(CROSS_ENTROPY)
    (folder / "2_Gated.py").write_text(GATED_MLP.replace("torch.rand(", "torch.no_such_function("))
    document = command("task", "import", folder)
    assert [task["op"] for task in document["tasks"]] == ["1_Loss"]
    assert document["obstacles"][0]["problem"] == "2_Gated"
    assert "no_such_function" in document["obstacles"][0]["reason"]
    (folder / "1_Loss.py").unlink()
    assert command("task", "import", folder, code=1)["tasks"] == []


def test_one_bad_file_leaves_nothing(command: Command, ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "1_Loss.py").write_text(CROSS_ENTROPY)
    (folder / "2_Broken.py").write_text("def get_inputs(:\n")
    assert run_command(["task", "import", str(folder)]) == 2
    assert ledger.tasks() == ()
