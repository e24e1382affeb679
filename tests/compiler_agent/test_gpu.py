"""Which GPU a name means, told by a stand-in for nvidia-smi; what a sandbox is shown of it, by one for the driver."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ceilings_of_tests import generous_ceilings
from judge_tasks import RMSNORM

from candidates.device import Gpu
from candidates.gpu_fingerprint import fingerprint_gpu
from candidates.judge.judge import GpuBench
from candidates.ledger.ledger import Ledger
from compiler_agent import gpu, wiring
from compiler_agent.gpu import find_gpu, identify_gpu, known_gpu_ceilings, target_gpu
from compiler_agent.gpu_check.children import ChildEnd, ChildEnding
from compiler_agent.gpu_check.results import CeilingsAnswer, FactsAnswer, FactsJob, Job
from compiler_agent.outcome import UserFault
from compiler_agent.queue_services import queue_services
from compiler_agent.settings import Settings, read_settings
from compiler_agent.wiring import open_workbench
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.gpu_nodes import gpu_nodes
from kernel_sandbox.sandbox import Limits, SandboxUnavailable
from tests.compiler_agent.gpu_check.fake_contests import CEILINGS
from tests.fake_gpu import FACTS
from workflows.queues import device_queue

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


class Children:
    """Processes on a GPU that answer at once."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def run(self, job: Job, limit_s: float) -> ChildEnd:
        self.jobs.append(job)
        if isinstance(job, FactsJob):
            facts = FactsAnswer(device={"uuid": FIRST}, fingerprint=fingerprint_gpu(FACTS, "nvcc"))
            return ChildEnd(ending=ChildEnding.DONE, answers=(facts,), log="")
        return ChildEnd(ending=ChildEnding.DONE, answers=(CeilingsAnswer(ceilings=CEILINGS),), log="")


@pytest.fixture
def children(tool: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    tell(tool, f"{FIRST}, 9.0\\n")
    made = Children()
    monkeypatch.setattr(gpu, "run_child", made.run)
    identify_gpu.cache_clear()
    yield made
    identify_gpu.cache_clear()


def settings_on(folder: Path, uuid: str | None) -> Settings:
    return read_settings({"COMPILER_AGENT_HOME": str(folder)} | ({"COMPILER_AGENT_GPU": uuid} if uuid else {}))


def test_kernels_for_the_named_gpu_are_measured_on_it_and_others_wait(children: Children, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    named = settings_on(tmp_path, FIRST)
    device = fingerprint_gpu(FACTS, "nvcc")
    assert target_gpu(named, ledger, ("gfx942", "sm_90")) == device.id
    assert ledger.device(device.id) == device
    assert target_gpu(named, ledger, ("sm_80",)) is None
    assert target_gpu(settings_on(tmp_path, None), ledger, ("sm_90",)) is None


def test_what_a_gpu_can_do_is_measured_once(children: Children, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    first = known_gpu_ceilings(ledger, FIRST, threads=1)
    assert known_gpu_ceilings(ledger, FIRST, threads=1) == first
    assert len(children.jobs) == 2  # which GPU it is, and its rates
    assert first.read[-2].working_set_bytes == FACTS.l2_bytes


def test_a_gpu_that_answers_nothing_is_the_users_fault(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: Job, limit_s: float) -> ChildEnd:
        return ChildEnd(ending=ChildEnding.NO_DEVICE, answers=(), log="no GPU that torch can use")

    monkeypatch.setattr(gpu, "run_child", fail)
    identify_gpu.cache_clear()
    with pytest.raises(UserFault, match="no GPU that torch can use"):
        identify_gpu(FIRST)


def test_a_worker_of_the_gpu_serves_its_queue_and_no_other(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = GpuBench(gpu=Gpu(uuid=FIRST, architecture="sm_90"), sandbox=BubblewrapSandbox())
    monkeypatch.setattr(wiring, "find_gpu_bench", lambda settings: bench if settings.gpu_uuid else None)
    with queue_services(settings_on(tmp_path, FIRST), ("gpu",)) as services:
        assert [service.queue for service in services] == [device_queue(fingerprint_gpu(FACTS, "nvcc").id)]
        assert [service.parallel for service in services] == [1]
    with pytest.raises(UserFault, match="COMPILER_AGENT_GPU"), queue_services(settings_on(tmp_path, None), ("gpu",)):
        pass


@pytest.mark.parametrize(
    ("architectures", "is_timed"), [((), True), (("sm_90",), True), (("gfx942",), False), (("sm_80", "sm_90"), True)]
)
def test_what_is_timed_here(
    children: Children,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    architectures: tuple[str, ...],
    is_timed: bool,
) -> None:
    bench = GpuBench(gpu=Gpu(uuid=FIRST, architecture="sm_90"), sandbox=BubblewrapSandbox())
    monkeypatch.setattr(wiring, "find_gpu_bench", lambda settings: bench)
    monkeypatch.setattr(wiring, "known_ceilings", lambda settings, ledger, threads: generous_ceilings())
    with open_workbench(settings_on(tmp_path, FIRST)) as workbench:
        task = RMSNORM.aimed_at(architectures) if architectures else RMSNORM
        assert (workbench.benchmark(task) is not None) is is_timed
