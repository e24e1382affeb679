"""Loads the runtime of a serving build from the build's folder, once its bytes are what the manifest says."""

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType


class RuntimeRefused(Exception):
    """The runtime's file is missing or is not what the build's manifest says."""


def load_runtime(build: Path) -> ModuleType:
    """Builds with the same runtime share one module. The rest of the build is verified by `install`."""
    path = build / "runtime.py"
    try:
        source = path.read_bytes()
        expected = json.loads((build / "manifest.json").read_text(encoding="utf-8"))["files"]["runtime.py"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RuntimeRefused(f"{build} is not a serving build ({error}): install it again") from error
    digest = hashlib.sha256(source).hexdigest()
    if digest != expected:
        raise RuntimeRefused(f"{path} has sha256 {digest}, not {expected}: install the build again")
    name = f"compiler_agent_runtime_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: its dataclasses look themselves up
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
