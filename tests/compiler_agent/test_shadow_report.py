"""What `shadow-report` makes of a live build's counters, and of other files."""

import json
from pathlib import Path

import pytest

from compiler_agent.main import run_command
from compiler_agent.outcome import ExitCode

SOUND = {"op": "Linear", "hits": 5, "misses": 1, "shadow": {"agreed": 3, "disagreed": 0, "failed": 0}}


def written(folder: Path, **changes: object) -> str:
    path = folder / "counters.json"
    path.write_text(
        json.dumps({"build_id": "b" * 64, "obstacle": None, "failures": {}, "kernels": {"k": SOUND | changes}})
    )
    return str(path)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ExitCode.DONE),
        ({"shadow": {"agreed": 3, "disagreed": 1, "failed": 0}}, ExitCode.NOT_ACHIEVED),
        ({"shadow": {"agreed": 3, "disagreed": 0, "failed": 1}}, ExitCode.NOT_ACHIEVED),
        ({"switched_off": "it raised"}, ExitCode.NOT_ACHIEVED),
    ],
)
def test_a_kernel_that_disagrees_is_no_success(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, object], code: ExitCode
) -> None:
    assert run_command(["shadow-report", written(tmp_path, **changes)]) is code
    assert "Linear" in capfd.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"build_id": "b", "kernels": [1]}'])
def test_another_file_is_the_users_fault(tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    assert run_command(["shadow-report", str(tmp_path / "other.json")]) is ExitCode.USER_FAULT
    assert "other.json" in capfd.readouterr().err
