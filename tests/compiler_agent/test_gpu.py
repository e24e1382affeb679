"""Which GPU a name means, told by a stand-in for nvidia-smi; what a sandbox is shown of it, by one for the driver."""

import os
from pathlib import Path

import pytest

from candidates.device import Gpu
from compiler_agent.gpu import find_gpu
from compiler_agent.outcome import UserFault
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.gpu_nodes import gpu_nodes
from kernel_sandbox.sandbox import Limits, SandboxUnavailable

FIRST, SECOND = "GPU-11111111-2222-3333-4444-555555555555", "GPU-aaaaaaaa-2222-3333-4444-555555555555"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "nvidia-smi"


def tell(tool: Path, lines: str) -> None:
    tool.write_text(f"#!/bin/sh\nprintf '{lines}'\n")
    tool.chmod(0o755)


def test_a_gpu_is_found_with_its_architecture(tool: Path) -> None:
    tell(tool, f"{FIRST}, 8.0\\n{SECOND}, 9.0\\n")
    assert find_gpu(SECOND) == Gpu(uuid=SECOND, architecture="sm_90")


def test_a_part_of_a_gpu_is_of_the_only_architecture_there_is(tool: Path) -> None:
    tell(tool, f"{FIRST}, 9.0\\n{SECOND}, 9.0\\n")
    assert find_gpu("MIG-1").architecture == "sm_90"
    tell(tool, f"{FIRST}, 8.0\\n{SECOND}, 9.0\\n")
    with pytest.raises(UserFault, match="MIG-1"):
        find_gpu("MIG-1")


@pytest.mark.parametrize("lines", ["", f"{FIRST}, 8.0\\n"])
def test_a_gpu_that_is_not_here_is_the_users_fault(tool: Path, lines: str) -> None:
    tell(tool, lines)
    with pytest.raises(UserFault, match=SECOND):
        find_gpu(SECOND)


def test_without_the_vendors_tool_no_gpu_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserFault, match="nvidia-smi"):
        find_gpu(FIRST)


def test_a_sandbox_is_shown_the_one_gpu_and_what_all_share(tmp_path: Path) -> None:
    driver, devices = tmp_path / "gpus", tmp_path / "dev"
    devices.mkdir()
    for minor, uuid in enumerate((FIRST, SECOND)):
        folder = driver / f"0000:0{minor}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t Fake\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
        (devices / f"nvidia{minor}").touch()
    (devices / "nvidiactl").touch()
    assert [node.name for node in gpu_nodes(SECOND, driver, devices)] == ["nvidia1", "nvidiactl"]
    with pytest.raises(SandboxUnavailable, match=FIRST):
        gpu_nodes("GPU-0", driver, devices)
    with pytest.raises(SandboxUnavailable, match="docker"):
        gpu_nodes("MIG-1", driver, devices)


def test_bubblewrap_shows_device_nodes_where_they_are() -> None:
    shown = Path("/dev/fuse")
    if not shown.is_char_device():
        pytest.skip("no /dev/fuse on this machine")
    for nodes, expected_status in (((shown,), 0), ((), 1)):
        sandbox = BubblewrapSandbox(nodes)
        with sandbox.open(Limits()) as session:
            assert session.run(["test", "-c", str(shown)]).exit_code == expected_status
