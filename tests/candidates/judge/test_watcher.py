"""The shell around a watching program: which one it takes, what it hands on, and what of the report comes back."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_watcher import fake_program, missing_program
from judge_tasks import SANDBOX

from candidates.judge.watcher import LOG_BYTES, LOG_FILE, Program, Watcher, compute_sanitizer, has_program, ncu
from kernel_sandbox.sandbox import Ending, Finished


def run(folder: Path, places: Sequence[str], watched: Sequence[str] = ("true",)) -> tuple[Watcher, Finished]:
    """Outside a sandbox, with the report in `folder`."""
    program = Program(name="any", places=tuple(places), read_only={}, advice="")
    watcher = Watcher(program=program, options=("--log-file", str(folder / "log")))
    command = [str(folder / "log") if word == LOG_FILE else word for word in watcher.command]
    ran = subprocess.run([*command, *watched], capture_output=True, text=True, check=False)
    return watcher, Finished(ending=Ending.EXITED, exit_code=ran.returncode, log=ran.stderr, wall_s=0.0)


def write_program(path: Path, says: str, status: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "{says}: $*" > "$2"\nshift 2\n"$@"\nexit {status}\n')
    path.chmod(0o755)


def test_the_report_comes_after_what_was_printed(tmp_path: Path) -> None:
    write_program(tmp_path / "tool", "found")
    watcher, finished = run(tmp_path, [str(tmp_path / "tool")], ["sh", "-c", "echo noise >&2; echo more noise >&2"])
    assert "noise" in finished.log
    assert watcher.report(finished) == f"found: --log-file {tmp_path}/log sh -c echo noise >&2; echo more noise >&2\n"


def test_of_several_the_first_place_and_its_newest_match_is_taken(tmp_path: Path) -> None:
    for name in ("2024.1", "2025.3"):
        write_program(tmp_path / "with space" / name / "ncu", name)
    write_program(tmp_path / "later", "later")
    places = [f"{tmp_path}/none/*/ncu", f"{tmp_path}/with space/*/ncu", f"{tmp_path}/later"]
    watcher, finished = run(tmp_path, places)
    assert watcher.report(finished).startswith("2025.3: ")


@pytest.mark.parametrize(("status", "shown"), [(0, 0), (77, 77), (86, 86), (127, 1), (137, 1), (255, 1)])
def test_statuses_are_those_of_the_program_unless_shells_have_them(tmp_path: Path, status: int, shown: int) -> None:
    write_program(tmp_path / "tool", "found", status)
    watcher, finished = run(tmp_path, [str(tmp_path / "tool")])
    assert finished.exit_code == shown
    assert not watcher.is_missing(finished)


def test_a_missing_program_is_told_from_one_that_fails(tmp_path: Path) -> None:
    watcher, finished = run(tmp_path, [str(tmp_path / "tool"), f"{tmp_path}/*/tool"])
    assert watcher.is_missing(finished)
    assert watcher.report(finished) == ""


def test_a_long_report_is_cut(tmp_path: Path) -> None:
    write_program(tmp_path / "tool", "found")
    watched = ["sh", "-c", f"head -c {2 * LOG_BYTES} /dev/zero | tr '\\0' x >> {tmp_path}/log"]
    watcher, finished = run(tmp_path, [str(tmp_path / "tool")], watched)
    assert len(watcher.report(finished)) == LOG_BYTES


def test_what_is_watched_cannot_write_a_report_of_its_own_to_standard_error(tmp_path: Path) -> None:
    write_program(tmp_path / "tool", "found")
    other = Watcher(program=compute_sanitizer(), options=())
    watcher, finished = run(tmp_path, [str(tmp_path / "tool")], ["sh", "-c", f"echo {other.marker} >&2; echo no >&2"])
    assert watcher.report(finished).startswith("found: ")
    assert other.report(Finished(ending=Ending.EXITED, exit_code=0, log="nothing", wall_s=0.0)) == ""


def test_a_sandbox_is_asked_whether_it_shows_the_program(tmp_path: Path) -> None:
    assert has_program(SANDBOX, fake_program(tmp_path, "ncu", "print('Version 0')"))
    assert not has_program(SANDBOX, missing_program("ncu"))


def test_programs_are_looked_for_where_toolkits_put_them() -> None:
    assert "/usr/local/cuda/bin/compute-sanitizer" in compute_sanitizer().places
    assert ncu().places[-1] == "/opt/nvidia/nsight-compute/*/ncu"
