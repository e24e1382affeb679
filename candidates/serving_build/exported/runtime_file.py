"""Loads the runtime of a serving build from the build's folder, once its bytes are what the manifest says.

What else is in the build, and who signed it, is the runtime's to check when it installs.
"""

import hashlib
import importlib.util
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType


class FileRefused(Exception):
    """A file of a build is missing or is not what the build's manifest says."""


def load_runtime(build: Path) -> ModuleType:
    """Builds with the same runtime share one module."""
    path = build / "runtime.py"
    source, digest = _read_listed(build, path.name, _files_of(build))
    name = f"compiler_agent_runtime_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with ExitStack() as undo:
        sys.modules[name] = module  # before it runs: its dataclasses look themselves up
        undo.callback(sys.modules.pop, name)
        exec(compile(source, str(path), "exec"), module.__dict__)
        undo.pop_all()  # it ran to its end: it stays
    return module


def require_intact(build: Path) -> None:
    """Raises FileRefused with the name of a file that was changed."""
    files = _files_of(build)
    for name in files:
        _read_listed(build, name, files)


def _files_of(build: Path) -> dict[str, str]:
    try:
        files: dict[str, str] = json.loads((build / "manifest.json").read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileRefused(f"{build / 'manifest.json'} is not of a serving build ({error}): install it again") from error
    return files


def _read_listed(build: Path, name: str, files: dict[str, str]) -> tuple[bytes, str]:
    """A file's bytes and their digest."""
    try:
        content = (build / name).read_bytes()
    except OSError as error:
        raise FileRefused(f"{build / name} cannot be read ({error.strerror}): install the build again") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != files.get(name):
        raise FileRefused(f"{build / name} has sha256 {digest}, not {files.get(name)}: install the build again")
    return content, digest
