"""Images for DockerSandbox: built from the Dockerfiles in `images/`, or of this machine's own files.

Each holds the supervisor and says of which version; `record_image` keeps their ids, by which alone they are used.
"""

import importlib.resources
import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from kernel_sandbox.docker_engine import Engine
from kernel_sandbox.docker_profile import SUPERVISOR
from kernel_sandbox.docker_sandbox import SUPERVISOR_LABEL
from kernel_sandbox.docker_supervisor import supervisor_digest, supervisor_source
from kernel_sandbox.machine_files import write_root_folder
from kernel_sandbox.sandbox import SandboxUnavailable

_RECORD = "sandbox-images.json"
_REPOSITORY = "compiler-agent-sandbox"


class ImageName(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


def build_image(engine: Engine, name: ImageName, say: Callable[[str], None]) -> str:
    """From `images/NAME/Dockerfile`, which pulls its base by digest; returns the image's id."""
    context = io.BytesIO()
    dockerfile = importlib.resources.files("kernel_sandbox.images").joinpath(name.value, "Dockerfile").read_bytes()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for file, content in (("Dockerfile", dockerfile), ("supervisor.cpp", supervisor_source())):
            entry = tarfile.TarInfo(file)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    context.seek(0)
    line = ""
    for line in engine.build_image(context, _labels(), f"{_REPOSITORY}:{name.value}"):
        say(line)
    return line


def import_this_machine(engine: Engine) -> str:
    """Of this machine's compilers and libraries, without pulling anything; returns the image's id."""
    with tempfile.TemporaryFile() as files:
        write_root_folder(files, _compile_supervisor(), SUPERVISOR)
        files.seek(0)
        return engine.import_image(files, _labels(), f"{_REPOSITORY}:{ImageName.CPU.value}")


def record_image(home: Path, name: ImageName, image_id: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    images = _read(home) | {name.value: image_id}
    unfinished = home / f"{_RECORD}.{os.getpid()}"
    unfinished.write_text(json.dumps(images, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(home / _RECORD)


def recorded_image(home: Path, name: ImageName) -> str:
    """Raises SandboxUnavailable when none was built."""
    image_id = _read(home).get(name.value)
    if image_id is None:
        alone = ", or with --from-this-machine where no registry can be reached" if name is ImageName.CPU else ""
        raise SandboxUnavailable(
            f"no image for the docker sandbox in {home}: compiler-agent sandbox build-image {name.value}{alone}"
        )
    return image_id


def _read(home: Path) -> dict[str, str]:
    try:
        images: dict[str, str] = json.loads((home / _RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise SandboxUnavailable(f"{home / _RECORD} cannot be read ({error}): remove it, build the image") from error
    return images


def _labels() -> dict[str, str]:
    return {SUPERVISOR_LABEL: supervisor_digest()}


def _compile_supervisor() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "supervisor.cpp"), Path(folder, "supervisor")
        source.write_bytes(supervisor_source())
        try:
            subprocess.run(
                ["g++", "-std=c++20", "-O2", "-static", "-o", program, source],
                check=True,
                capture_output=True,
                text=True,
            )
        except FileNotFoundError as error:
            raise SandboxUnavailable("no g++ on this machine: apt-get install g++") from error
        except subprocess.CalledProcessError as error:
            raise SandboxUnavailable(
                f"the supervisor cannot be linked statically (on Fedora: dnf install glibc-static libstdc++-static): "
                f"{error.stderr.strip()[-500:]}"
            ) from error
        return program.read_bytes()
