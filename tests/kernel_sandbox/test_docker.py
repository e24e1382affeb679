"""DockerSandbox keeps the contract, on an engine that the tests start."""

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import sandbox_surroundings
from own_engine import OwnEngine, shims_of
from sandbox_contract import SandboxContract
from sandbox_surroundings import traces_of_sandboxes

from kernel_sandbox.docker_profile import OWNER_LABEL
from kernel_sandbox.docker_sandbox import DockerSandbox
from kernel_sandbox.sandbox import Limits, SandboxError


@pytest.fixture(scope="module")
def engine(docker_engine: OwnEngine) -> Iterator[OwnEngine]:
    sandbox_surroundings.SERVICES.add(docker_engine.pid)
    yield docker_engine
    sandbox_surroundings.SERVICES.discard(docker_engine.pid)


def traces_of_containers(engine: OwnEngine) -> dict[str, object]:
    client = docker.APIClient(base_url=engine.engine.address)
    volumes = client.volumes()["Volumes"] or []
    client.close()
    return {
        "containers": sorted(engine.engine.containers_with(OWNER_LABEL)),
        "volumes": sorted(volume["Name"] for volume in volumes),
        "shims": shims_of(engine.folder),
    }


class TestDocker(SandboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, engine: OwnEngine) -> Iterator[DockerSandbox]:
        cls.engine = engine
        yield engine.sandbox()

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
