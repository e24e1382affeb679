"""Engine: what is asked of a Docker engine on this machine. The only module that imports Docker's SDK.

Engines elsewhere are refused: descriptors and shared memory do not reach them.
"""

import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kernel_sandbox.sandbox import SandboxError, SandboxUnavailable

_SYSTEM_SOCKET = "/var/run/docker.sock"
_PATIENCE_S = 60.0
_GPU_WORDS = ("could not select device driver", "unresolvable CDI devices", "nvidia-container-cli", "CDI device")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    version: str
    security_options: tuple[str, ...]
    limits_memory: bool
    limits_processes: bool

    @property
    def is_rootless(self) -> bool:
        return any(option.startswith("name=rootless") for option in self.security_options)

    @property
    def filters_system_calls(self) -> bool:
        return any("name=seccomp" in option and "unconfined" not in option for option in self.security_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    is_running: bool
    pid: int
    """On the machine of the engine; 0 when it does not run."""
    exit_code: int
    was_out_of_memory: bool
    error: str


class Engine:
    """Safe to share between threads. Raises SandboxUnavailable when the engine is gone, SandboxError for its refusals.

    `address` is a unix socket's URL; `connect_engine` finds it.
    """

    def __init__(self, address: str) -> None:
        docker = _sdk()
        self.address = address
        self._failures = (docker.errors.DockerException, OSError)
        self._not_found = docker.errors.NotFound
        require_socket(address)
        with self._told("answer"):
            self._client = docker.APIClient(base_url=address, timeout=_PATIENCE_S, version="auto")

    def facts(self) -> EngineFacts:
        with self._told("describe itself"):
            said = self._client.info()
        return EngineFacts(
            version=said["ServerVersion"],
            security_options=tuple(said.get("SecurityOptions") or ()),
            limits_memory=bool(said.get("MemoryLimit")),
            limits_processes=bool(said.get("PidsLimit")),
        )

    def image_labels(self, image_id: str) -> Mapping[str, str] | None:
        """None: it has no such image."""
        with self._told("look for an image"):
            try:
                labels: Mapping[str, str] = self._client.inspect_image(image_id)["Config"].get("Labels") or {}
            except self._not_found:
                return None
        return labels

    def create(self, config: Mapping[str, object]) -> str:
        with self._told("create a container"):
            return str(self._client.create_container_from_config(dict(config))["Id"])

    def start(self, container_id: str) -> None:
        with self._told("start a container"):
            self._client.start(container_id)

    def state(self, container_id: str) -> ContainerState:
        with self._told("inspect a container"):
            said = self._client.inspect_container(container_id)["State"]
        return ContainerState(
            is_running=bool(said["Running"]),
            pid=int(said["Pid"]),
            exit_code=int(said["ExitCode"]),
            was_out_of_memory=bool(said["OOMKilled"]),
            error=str(said["Error"]),
        )

    def wait(self, container_id: str) -> int:
        """Exit status of its first process, when it has ended."""
        with self._told("wait for a container"):
            return int(self._client.wait(container_id, timeout=_PATIENCE_S)["StatusCode"])

    def remove(self, container_id: str) -> None:
        """Also while it runs; idempotent."""
        with self._told("remove a container"), contextlib.suppress(self._not_found):
            self._client.remove_container(container_id, force=True, v=True)

    def containers_with(self, label: str) -> Mapping[str, str]:
        """The label's value by container, of all that there are."""
        with self._told("list containers"):
            found = self._client.containers(all=True, filters={"label": label})
        return {container["Id"]: container["Labels"][label] for container in found}

    def import_image(self, files: IO[bytes], labels: Mapping[str, str], tag: str) -> str:
        """A tar file of a whole root folder becomes an image; returns its id."""
        changes = [f'LABEL "{name}"="{value}"' for name, value in labels.items()]
        with self._told("import an image"):
            self._client.import_image_from_data(files, repository=tag, changes=changes)
            return str(self._client.inspect_image(tag)["Id"])

    def build_image(self, context: IO[bytes], labels: Mapping[str, str], tag: str) -> Iterator[str]:
        """A tar file with a Dockerfile becomes an image; yields what the build says, at last the image's id."""
        with self._told("build an image"):
            said = self._client.build(
                fileobj=context, custom_context=True, labels=dict(labels), tag=tag, rm=True, forcerm=True, decode=True
            )
            for line in said:
                if "error" in line:
                    raise SandboxUnavailable(f"the image cannot be built: {line['error'].strip()}")
                if text := line.get("stream", "").strip():
                    yield text
            yield str(self._client.inspect_image(tag)["Id"])

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._failures as failure:
            message = str(getattr(failure, "explanation", None) or failure).strip()
            if any(words in message for words in _GPU_WORDS):
                raise SandboxUnavailable(
                    f"this engine gives containers no GPU ({message}): install the NVIDIA Container Toolkit 1.17.8 or "
                    "newer (nvidia-ctk runtime configure --runtime=docker, then restart Docker), or for CDI names use "
                    "Docker 25 or newer with CDI on (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)"
                ) from failure
            if isinstance(failure, OSError):
                require_socket(self.address)
            raise SandboxError(f"the Docker engine cannot {what}: {message}") from failure


def connect_engine(environment: Mapping[str, str] = os.environ) -> Engine:
    """Where Docker's own tools look: DOCKER_HOST, the context in use, the system's socket, the user's own.

    Raises SandboxUnavailable, with the fix."""
    return Engine(find_address(environment))


def find_address(environment: Mapping[str, str] = os.environ) -> str:
    named = environment.get("DOCKER_HOST") or _context_host(environment)
    if named is not None:
        if not named.startswith("unix://"):
            raise SandboxUnavailable(
                f"the Docker engine at {named} is on another machine or behind a proxy, where no memory can be shared "
                "with it: set DOCKER_HOST to the unix:// socket of an engine on this machine"
            )
        return named
    rootless = Path(environment.get("XDG_RUNTIME_DIR") or "/nonexistent") / "docker.sock"
    if rootless.exists() and not os.access(_SYSTEM_SOCKET, os.R_OK | os.W_OK):
        return f"unix://{rootless}"
    return f"unix://{_SYSTEM_SOCKET}"


def require_socket(address: str) -> None:
    """Raises SandboxUnavailable, in words for whom it does not answer."""
    path = address.removeprefix("unix://")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PATIENCE_S)
        try:
            probe.connect(path)
        except PermissionError as error:
            raise SandboxUnavailable(
                f"no permission to use the Docker engine at {path}: sudo usermod -aG docker $USER and log in again "
                "(who is in that group is as good as root), or run an engine of your own: "
                "dockerd-rootless-setuptool.sh install"
            ) from error
        except OSError as error:
            raise SandboxUnavailable(
                f"no Docker engine answers at {path} ({error.strerror or error}): sudo systemctl start docker "
                "(your own: systemctl --user start docker), or set DOCKER_HOST to its unix:// socket"
            ) from error


def _context_host(environment: Mapping[str, str]) -> str | None:
    """Of the context in use, as Docker's command line keeps them; None: the default one.

    The SDK, without a settings file, would look for contexts in the folder where we happen to be.
    """
    folder = Path(environment.get("DOCKER_CONFIG") or Path.home() / ".docker")
    name = environment.get("DOCKER_CONTEXT") or _read_json(folder / "config.json").get("currentContext")
    if name in (None, "", "default"):
        return None
    digest = hashlib.sha256(str(name).encode()).hexdigest()
    try:
        return str(_read_json(folder / "contexts" / "meta" / digest / "meta.json")["Endpoints"]["docker"]["Host"])
    except KeyError as error:
        raise SandboxUnavailable(
            f"there is no Docker context {name}: docker context ls, docker context use default"
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SandboxUnavailable(f"Docker's settings cannot be read ({path}: {error}): mend or remove it") from error
    return content


def _sdk() -> Any:
    try:
        import docker
    except ImportError as error:
        raise SandboxUnavailable(
            "the docker sandbox needs Docker's SDK for Python: pip install 'compiler-agent[docker]'"
        ) from error
    return docker
