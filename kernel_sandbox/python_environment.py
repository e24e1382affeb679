"""PythonEnvironment: the interpreter that runs inside a sandbox, with the packages of the one that runs us."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEnvironment:
    argv: tuple[str, ...]
    """Interpreter and flags: no folder, variable or site of a user is read, no bytecode is written."""
    read_only: Mapping[Path, str]
    """Host folders by where they appear inside, as `Sandbox.open` takes them."""


def python_environment() -> PythonEnvironment:
    folders = {Path(folder) for folder in (sys.prefix, sys.base_prefix)}
    return PythonEnvironment(
        argv=(sys.executable, "-I", "-B"), read_only={folder: str(folder) for folder in sorted(folders)}
    )
