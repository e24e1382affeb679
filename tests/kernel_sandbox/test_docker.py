"""DockerSandbox keeps the contract, on an engine that the tests start."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import sandbox_surroundings
from abuse_cases import LIMITS
from docker_traces import traces_of_containers
from own_engine import OwnEngine
from sandbox_contract import SandboxContract
from sandbox_surroundings import traces_of_sandboxes

from kernel_sandbox.docker_profile import OWNER_LABEL
from kernel_sandbox.docker_sandbox import DockerSandbox
from kernel_sandbox.sandbox import Ending, Limits, SandboxError, SandboxUnavailable

LEAVE_A_CONTAINER = """
import os, signal
from kernel_sandbox.docker_engine import Engine
from kernel_sandbox.docker_sandbox import DockerSandbox
from kernel_sandbox.sandbox import Limits
session = DockerSandbox({image!r}, connect=lambda: Engine({address!r})).open(Limits())
process = session.start(["cat"])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def engine(docker_engine: OwnEngine) -> Iterator[OwnEngine]:
    sandbox_surroundings.SERVICES.add(docker_engine.pid)
    yield docker_engine
    sandbox_surroundings.SERVICES.discard(docker_engine.pid)


class TestDocker(SandboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, engine: OwnEngine) -> DockerSandbox:
        cls.engine = engine
        return engine.sandbox()

    @pytest.fixture(scope="class")
    @classmethod
    def holds_whole_trees(cls) -> bool:
        return True

    def traces(self) -> dict[str, object]:
        return traces_of_sandboxes() | traces_of_containers(self.engine)

    def around(self, others: list[int]) -> tuple[int, int]:
        (container,) = self.engine.engine.containers_with(OWNER_LABEL)
        program = self.engine.engine.state(container).pid
        parent = Path(f"/proc/{program}/stat").read_text().rpartition(") ")[2].split()[1]
        return int(parent), program

    def test_a_folder_that_does_not_exist_is_refused(self, sandbox: DockerSandbox) -> None:
        with pytest.raises(SandboxError, match="does not exist"):
            sandbox.open(Limits(), {Path("/no/such/folder"): "/given"})

    @pytest.mark.parametrize("act", ["read_init", "write_socket_folder", "reach_host"])
    def test_sandbox_abuse_of_the_supervisor(
        self, sandbox: DockerSandbox, programs: dict[str, bytes], act: str
    ) -> None:
        with sandbox.open(LIMITS) as session:
            session.put("refusals", programs["refusals"])
            finished = session.run(["/scratch/refusals", act])
        assert (finished.ending, finished.exit_code) == (Ending.EXITED, 1), finished.log

    def test_a_session_goes_on_after_a_program_that_was_killed(self, sandbox: DockerSandbox) -> None:
        with sandbox.open(Limits(wall_s=0.3)) as session:
            assert session.run(["sh", "-c", "echo kept > file; sleep 1000"]).ending is Ending.TIMED_OUT
            assert session.run(["cat", "file"]).log == "kept\n"

    def test_a_started_program_is_the_last_of_its_session(self, sandbox: DockerSandbox) -> None:
        with sandbox.open(Limits()) as session:
            session.start(["cat"]).kill()
            with pytest.raises(SandboxError, match="open another"):
                session.run(["true"])

    def test_the_engine_stays_off_the_core_of_a_started_program(self, sandbox: DockerSandbox) -> None:
        core = max(os.sched_getaffinity(0))
        with sandbox.open(LIMITS) as session:
            process = session.start(["cat"], core=core)
            process.stdin.write(b"x")
            process.stdout.read(1)
            shim, program = self.around([])
            assert os.sched_getaffinity(program) == {core}
            cores = [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{shim}/task")]
            assert not any(core in allowed for allowed in cores) or os.cpu_count() == 1

    def test_limits_of_the_engine_are_on(self, sandbox: DockerSandbox) -> None:
        with sandbox.open(Limits(memory_bytes=64 << 20, scratch_bytes=1 << 20, processes=30)) as session:
            said = session.run(["sh", "-c", "ulimit -n; ulimit -c; grep -v cgroup /proc/mounts"]).log
            (container,) = self.engine.engine.containers_with(OWNER_LABEL)
            described = docker.APIClient(base_url=self.engine.engine.address).inspect_container(container)
        assert " / overlay ro," in said
        assert "/scratch tmpfs rw,nosuid,nodev,relatime,size=1088k,nr_inodes=272" in said
        assert "/tmp tmpfs rw,nosuid,nodev,noexec" in said
        assert said.startswith("1024\n0\n")
        host = described["HostConfig"]
        assert host["Memory"] == host["MemorySwap"] == 65 << 20
        assert host["PidsLimit"] == 31
        assert (host["NetworkMode"], host["CapDrop"], host["CapAdd"]) == ("none", ["ALL"], None)
        assert host["LogConfig"]["Type"] == "none"
        assert described["Config"]["User"] == "65534:65534"
        assert [mount["RW"] for mount in described["Mounts"]] == [False]

    def test_this_environments_python_runs_inside(self, sandbox: DockerSandbox) -> None:
        shown = {Path(prefix).absolute(): prefix for prefix in (sys.base_prefix, sys.prefix)}
        limits = Limits(wall_s=60.0, limits_address_space=False)
        with sandbox.open(limits, shown) as session:
            finished = session.run([sys.executable, "-I", "-c", "import bz2, ctypes, lzma, sqlite3, ssl, zlib, torch"])
        assert finished.exit_code == 0, finished.log

    def test_what_a_killed_process_left_is_removed(self, engine: OwnEngine, sandbox: DockerSandbox) -> None:
        program = LEAVE_A_CONTAINER.format(image=engine.image_id, address=engine.engine.address)
        killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with sandbox.open(Limits()):  # of a process that lives
            assert len(engine.engine.containers_with(OWNER_LABEL)) == 2
            with engine.sandbox().open(Limits()):
                assert len(engine.engine.containers_with(OWNER_LABEL)) == 2

    def test_a_gpu_that_the_engine_cannot_give_is_told(self, engine: OwnEngine) -> None:
        for gpu in ("GPU-8f6d1cf0-5b2e-4f39-9f0c-1c2d3e4f5a6b", "nvidia.com/gpu=0"):
            sandbox = DockerSandbox(engine.image_id, gpus=[gpu], connect=lambda: engine.engine)
            with pytest.raises(SandboxUnavailable, match=r"gives containers no GPU.*NVIDIA Container Toolkit 1\.17\.8"):
                sandbox.open(Limits())

    def test_an_image_that_is_not_there_is_told(self, engine: OwnEngine) -> None:
        sandbox = DockerSandbox(f"sha256:{'0' * 64}", connect=lambda: engine.engine)
        with pytest.raises(SandboxUnavailable, match="compiler-agent sandbox build-image cpu"):
            sandbox.open(Limits())
