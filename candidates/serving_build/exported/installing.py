"""A serving build in the models that an engine loads: nothing in here raises into the engine, all of it is counted.

The build is for one model, by name. It goes into a model whose name ends in the same words, or that the environment
names: `COMPILER_AGENT_MODEL` is then exactly what the engine was told to serve. `COMPILER_AGENT_DISABLE=1` installs
nothing.
"""

import atexit
import json
import logging
import tempfile
import weakref
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from .runtime_file import load_runtime

ARCHIVE = "serving_build.zip"
MODEL_VARIABLE = "COMPILER_AGENT_MODEL"

logger = logging.getLogger("compiler_agent")
events: Counter[str] = Counter()
"""What became of the models of this process: `installed`, `partly installed`, `not for this model`, `obstacle`,
`error`."""
_installed: "weakref.WeakKeyDictionary[torch.nn.Module, Any]" = weakref.WeakKeyDictionary()


def install_in(model: object, served_name: str, environment: "dict[str, str]") -> None:
    """Installs the build in a model that was loaded under `served_name`; twice is once."""
    try:
        _install(model, served_name, environment)
    except Exception:  # an engine must serve, whatever is wrong with a build
        events["error"] += 1
        logger.exception("the serving build is not installed; the engine's own code serves")


def counters() -> list[dict[str, Any]]:
    """Of each model that the build is in, by kernel id: hits, misses and shapes."""
    return [installation.counters() for installation in _installed.values()]


def log_counters() -> None:
    for installation in list(_installed.values()):
        for kernel, counted in installation.counters().items():
            logger.info("kernel %.12s: %d hits, misses %s", kernel, counted["hits"], counted["miss_reasons"])


def _install(model: object, served_name: str, environment: "dict[str, str]") -> None:
    if not isinstance(model, torch.nn.Module) or model in _installed:
        return
    with zipfile.ZipFile(Path(__file__).parent / ARCHIVE) as archive:
        _install_from(archive, model, served_name, environment)


def _install_from(
    archive: zipfile.ZipFile, model: torch.nn.Module, served_name: str, environment: "dict[str, str]"
) -> None:
    manifest = json.loads(archive.read("manifest.json"))
    if not _is_for(manifest["model"], served_name, environment):
        events["not for this model"] += 1
        logger.warning(
            "the serving build is for %r, not for %r: nothing installed (set %s to the latter if they are one model)",
            manifest["model"], served_name, MODEL_VARIABLE,
        )  # fmt: skip
        return
    with tempfile.TemporaryDirectory(prefix="compiler-agent-") as folder:
        archive.extractall(folder)  # which keeps every file below the folder, whatever its name
        installation = load_runtime(Path(folder)).install(model, folder)
    if installation.obstacle is not None:
        events["obstacle"] += 1
        logger.warning("no kernel of the serving build is installed: %s", installation.obstacle)
        return
    if not _installed:
        atexit.register(log_counters)
    _installed[model] = installation
    kernels = len(manifest["kernels"])
    events["partly installed" if installation.failures else "installed"] += 1
    logger.info("serving build in %r: %d of %d kernels", served_name, kernels - len(installation.failures), kernels)
    for reason in installation.failures.values():
        logger.warning("a kernel is not installed everywhere: %s", reason)


def _is_for(model: str, served_name: str, environment: "dict[str, str]") -> bool:
    named = environment.get(MODEL_VARIABLE)
    if named:
        return named == served_name
    return PurePosixPath(model).name.casefold() == PurePosixPath(served_name).name.casefold() != ""
