"""A Python package that an engine finds as its plugin: a whole build, and the code that installs it in that engine."""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from candidates.serving_build.build import Build
from candidates.serving_build.build_files import as_archive, kernels_for_no_cpu, read_whole
from candidates.serving_build.export_names import distribution_name
from candidates.serving_build.exported import installing, runtime_file
from candidates.serving_build.target import TRUST, Export


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    name: str
    """As people write it."""
    entry_point_group: str
    plugin: ModuleType
    """Has `register`; is copied."""
    allow_list: str
    """The environment variable with which the engine chooses among plugins."""


def engine_package(build: Build, engine: Engine) -> Export:
    """Named by the model, so that a later build replaces an earlier one; its version says which build it is."""
    if left_out := kernels_for_no_cpu(build):
        return Export(files={}, carried=(), left_out=left_out, next_step="")
    distribution = f"compiler-agent-{engine.name.lower()}-{distribution_name(build.manifest.model)}"
    package = distribution.replace("-", "_")
    files = {
        "pyproject.toml": _pyproject(build, engine, distribution, package).encode(),
        "README.md": _readme(build, engine, package).encode(),
        f"{package}/__init__.py": f'"""A serving build of Compiler Agent for {engine.name}."""\n'.encode(),
    }
    for name, module in (("plugin", engine.plugin), ("installing", installing), ("runtime_file", runtime_file)):
        assert module.__file__ is not None
        files[f"{package}/{name}.py"] = Path(module.__file__).read_bytes()
    # An archive, since pip would leave compiled files in a folder, and a build is refused for any file too many.
    files[f"{package}/{installing.ARCHIVE}"] = as_archive(read_whole(build))
    return Export(
        files=files,
        carried=tuple(entry.id for entry in build.manifest.kernels),
        left_out=(),
        next_step="pip install FOLDER",
    )


def _pyproject(build: Build, engine: Engine, distribution: str, package: str) -> str:
    return f"""[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{distribution}"
version = "1+build.{build.id[:12]}x"
description = "A serving build of Compiler Agent for {engine.name}: kernels for one model on one kind of CPU."
readme = "README.md"
requires-python = ">=3.10"

[project.entry-points."{engine.entry_point_group}"]
{package} = "{package}.plugin:register"

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = ["{installing.ARCHIVE}"]
"""


def _readme(build: Build, engine: Engine, package: str) -> str:
    return f"""The serving build {build.id} of Compiler Agent as a plugin of {engine.name}.

Installed with pip beside {engine.name}, it is found by the entry point `{package}` of `{engine.entry_point_group}`
(`{engine.allow_list}` chooses among plugins). It was measured on the device {build.manifest.device.id}; on another,
with `COMPILER_AGENT_DISABLE=1`, or in a model of another name it installs nothing and says so in the log. A model that
was renamed is named by `COMPILER_AGENT_MODEL`, as {engine.name} was told to serve it.

{TRUST}
"""
