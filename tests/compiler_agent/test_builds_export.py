"""`compiler-agent builds export`, from a build of the home folder."""

import json
from pathlib import Path

import pytest

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build, write_build
from compiler_agent.main import run_command

CPU = DeviceFingerprint(
    kind="cpu", model="EPYC of tests", features=("avx2",), cores=1, cache_bytes=(1,), compiler="g++", torch_version="2"
)


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Without kernels: an engine's package carries it whole, and nothing else can carry any of it."""
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path / "home"))
    return write_build(tmp_path / "home", "Tiny", CPU, [])


def test_exports_a_build_and_says_what_to_do_next(
    build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "plugin"
    arguments = ["builds", "export", build.id[:8], "--target", "vllm", "--to", str(to)]
    assert run_command([*arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {
        "build": build.id, "target": "vllm", "folder": str(to), "kernels": [], "next_step": f"pip install {to}",
        "left_out": [],
    }  # fmt: skip
    assert (to / "compiler_agent_vllm_tiny" / "serving_build.zip").is_file()
    assert run_command(arguments) == 0
    assert f"next: pip install {to}" in capsys.readouterr().out


def test_nothing_is_written_where_no_kernel_can_go(
    build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["builds", "export", build.id, "--target", "hf-kernels", "--to", str(tmp_path / "to")]) == 1
    assert "hf-kernels can carry no kernel of build" in capsys.readouterr().out
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("wanted", "target", "words"),
    [("0000", "vllm", "no build has an id"), ("", "elsewhere", "elsewhere"), ("", "vllm", "holds no export of ours")],
)
def test_what_the_user_got_wrong_is_said(
    build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: str, target: str, words: str
) -> None:
    (tmp_path / "notes").write_text("mine")
    assert run_command(["builds", "export", wanted or build.id, "--target", target, "--to", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")
    assert (tmp_path / "notes").read_text() == "mine"
