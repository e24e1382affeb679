"""Which engine is asked, and what is said where there is none that could be used."""

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_sandbox.docker_engine import Engine, EngineFacts, connect_engine, find_address, require_socket
from kernel_sandbox.docker_image import ImageName, record_image, recorded_image
from kernel_sandbox.docker_sandbox import require_protection, require_safe_toolkit
from kernel_sandbox.sandbox import SandboxError, SandboxUnavailable

FACTS = EngineFacts(
    version="27.0", security_options=("name=seccomp,profile=builtin",), limits_memory=True, limits_processes=True
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """As of a user who has told Docker nothing."""
    return {"DOCKER_CONFIG": str(tmp_path / ".docker")}


def make_context(environment: dict[str, str], name: str, host: str) -> None:
    folder = Path(environment["DOCKER_CONFIG"], "contexts", "meta", hashlib.sha256(name.encode()).hexdigest())
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


def test_docker_host_goes_first(environment: dict[str, str]) -> None:
    named = environment | {"DOCKER_HOST": "unix:///a/b.sock", "DOCKER_CONTEXT": "gone", "XDG_RUNTIME_DIR": "/run"}
    assert find_address(named) == "unix:///a/b.sock"


def test_the_systems_socket_is_the_default(environment: dict[str, str]) -> None:
    assert find_address(environment) == "unix:///var/run/docker.sock"


def test_ones_own_engine_is_found_where_the_systems_may_not_be_used(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "docker.sock").touch()
    may_use = os.access("/var/run/docker.sock", os.R_OK | os.W_OK)
    expected = "unix:///var/run/docker.sock" if may_use else f"unix://{tmp_path}/docker.sock"
    assert find_address(environment | {"XDG_RUNTIME_DIR": str(tmp_path)}) == expected


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:2375", "ssh://build@host", "https://engine"])
def test_engines_elsewhere_are_refused(environment: dict[str, str], address: str) -> None:
    with pytest.raises(SandboxUnavailable, match="no memory can be shared"):
        find_address(environment | {"DOCKER_HOST": address})


def test_the_context_in_use_is_followed(environment: dict[str, str]) -> None:
    make_context(environment, "own", "unix:///run/user/7/docker.sock")
    make_context(environment, "far", "tcp://10.0.0.1:2375")
    Path(environment["DOCKER_CONFIG"], "config.json").write_text(json.dumps({"currentContext": "own"}))
    assert find_address(environment) == "unix:///run/user/7/docker.sock"
    assert find_address(environment | {"DOCKER_CONTEXT": "default"}) == "unix:///var/run/docker.sock"
    with pytest.raises(SandboxUnavailable, match=r"10\.0\.0\.1.* another machine"):
        find_address(environment | {"DOCKER_CONTEXT": "far"})
    with pytest.raises(SandboxUnavailable, match="no Docker context gone"):
        find_address(environment | {"DOCKER_CONTEXT": "gone"})


def test_an_engine_that_does_not_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        SandboxUnavailable, match=r"no Docker engine answers at .*nothing\.sock.*systemctl start docker"
    ):
        connect_engine({"DOCKER_HOST": f"unix://{tmp_path}/nothing.sock"})


def test_one_that_has_ended_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(tmp_path / "ended.sock"))
    with pytest.raises(SandboxUnavailable, match="no Docker engine answers"):
        connect_engine({"DOCKER_HOST": f"unix://{tmp_path}/ended.sock"})


def test_a_socket_that_may_not_be_used_is_told(tmp_path: Path) -> None:
    # Root may use any, so a user asks.
    with socket.socket(socket.AF_UNIX) as locked:
        locked.bind(str(tmp_path / "locked.sock"))
        locked.listen()
        (tmp_path / "locked.sock").chmod(0o600)
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        child = os.fork()
        if child == 0:
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                else:
                    (tmp_path / "locked.sock").chmod(0)
                require_socket(f"unix://{tmp_path}/locked.sock")
            except SandboxUnavailable as error:
                os._exit(0 if "usermod -aG docker" in str(error) else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_no_engine_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "other.sock")
    program = (
        "import socket, sys\n"
        "server = socket.socket(socket.AF_UNIX); server.bind(sys.argv[1]); server.listen()\n"
        "print('ready', flush=True)\n"
        "while True: server.accept()[0].close()"
    )
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        with pytest.raises(SandboxError, match="the Docker engine cannot answer"):
            Engine(f"unix://{path}")
        server.kill()


def test_without_the_sdk_the_rest_works_and_it_is_said_what_to_install() -> None:
    program = (
        "import sys; sys.modules['docker'] = None\n"
        "import compiler_agent.main\n"
        "from kernel_sandbox.docker_engine import connect_engine\n"
        "connect_engine()"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    assert "SandboxUnavailable: the docker sandbox needs Docker's SDK for Python: pip install" in said


def test_an_engine_that_protects_too_little_is_refused() -> None:
    require_protection(FACTS)
    unfiltered = EngineFacts(
        version="", security_options=("name=seccomp,profile=unconfined",), limits_memory=True, limits_processes=True
    )
    with pytest.raises(SandboxUnavailable, match="filters no system calls"):
        require_protection(unfiltered)
    unlimited = EngineFacts(
        version="", security_options=FACTS.security_options, limits_memory=True, limits_processes=False
    )
    with pytest.raises(SandboxUnavailable, match="cannot limit memory and processes"):
        require_protection(unlimited)


@pytest.mark.parametrize(
    ("said", "is_safe"), [("1.17.7", False), ("1.16.10", False), ("1.17.8", True), ("2.0.0", True)]
)
def test_toolkits_with_known_ways_out_are_refused(tmp_path: Path, said: str, is_safe: bool) -> None:
    program = tmp_path / "nvidia-ctk"
    program.write_text(f"#!/bin/sh\necho 'NVIDIA Container Toolkit CLI version {said}'\necho 'commit: 1.2.3'\n")
    program.chmod(0o755)
    if is_safe:
        require_safe_toolkit(str(program))
    else:
        with pytest.raises(SandboxUnavailable, match=r"install 1\.17\.8 or newer"):
            require_safe_toolkit(str(program))


def test_a_toolkit_that_cannot_be_asked_is_left_to_the_engine(tmp_path: Path) -> None:
    require_safe_toolkit(str(tmp_path / "no-such-program"))


def test_images_are_recorded_by_name(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="compiler-agent sandbox build-image cpu"):
        recorded_image(tmp_path, ImageName.CPU)
    record_image(tmp_path, ImageName.CPU, "sha256:1")
    record_image(tmp_path, ImageName.CUDA, "sha256:2")
    record_image(tmp_path, ImageName.CPU, "sha256:3")
    assert recorded_image(tmp_path, ImageName.CPU) == "sha256:3"
    assert recorded_image(tmp_path, ImageName.CUDA) == "sha256:2"
    (tmp_path / "sandbox-images.json").write_text("{")
    with pytest.raises(SandboxUnavailable, match="remove it, build the image"):
        recorded_image(tmp_path, ImageName.CPU)
