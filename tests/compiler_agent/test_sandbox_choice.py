"""Which sandbox a command uses, and how an image for Docker's comes about."""

import json
from pathlib import Path

import pytest
from own_engine import OwnEngine

from compiler_agent.main import run_command
from compiler_agent.outcome import ExitCode, UserFault
from compiler_agent.settings import SandboxName, read_settings
from compiler_agent.wiring import SANDBOXES, make_sandbox


def test_each_name_has_its_class() -> None:
    assert set(SANDBOXES) == set(SandboxName)


def test_an_option_goes_before_the_environment() -> None:
    assert read_settings({}).sandbox is SandboxName.BUBBLEWRAP
    assert read_settings({"COMPILER_AGENT_SANDBOX": "docker"}).sandbox is SandboxName.DOCKER
    chosen = read_settings({"COMPILER_AGENT_SANDBOX": "docker"}, sandbox=SandboxName.BUBBLEWRAP)
    assert chosen.sandbox is SandboxName.BUBBLEWRAP


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(UserFault, match="there are bubblewrap, docker"):
        read_settings({"COMPILER_AGENT_SANDBOX": "none"})


def test_without_an_image_it_is_said_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text("")
    assert run_command(["judge", "3f2a", str(kernel), "--sandbox", "docker"]) is ExitCode.USER_FAULT
    said = " ".join(capsys.readouterr().err.split())
    assert "sandbox: no image for the docker sandbox" in said
    assert "compiler-agent sandbox build-image cpu" in said


def test_no_machine_has_the_image_of_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["sandbox", "build-image", "cuda", "--from-this-machine"]) is ExitCode.USER_FAULT
    assert "NVIDIA's own base" in capsys.readouterr().err


@pytest.mark.slow
def test_an_image_that_was_built_is_the_one_in_use(
    docker_engine: OwnEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", docker_engine.engine.address)
    assert run_command(["sandbox", "build-image", "cpu", "--from-this-machine", "--json"]) is ExitCode.DONE
    built = json.loads(capsys.readouterr().out)
    assert built["engine"] == docker_engine.engine.address
    said = make_sandbox(read_settings(sandbox=SandboxName.DOCKER)).describe_limits()
    assert "memory, processes and CPU time of the whole tree" in said
    assert built["id"][:19] in said
