"""PythonEnvironment: how a sandboxed program runs the Python that runs us, with the packages that we have.

The interpreter is isolated: no user site, no PYTHON* variables, no bytecode written. Its folders are shown where they
lie outside, since a virtual environment names its base by path. What lies in a user's own site (`pip install --user`)
is not there.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_sandbox.sandbox import SandboxUnavailable

_FLAGS = ("-I", "-B")
_SHOWN_ANYWAY = Path("/usr")
"""Every sandbox has one: the host's own, or the image's, which must hold the same Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEnvironment:
    argv: tuple[str, ...]
    """The interpreter and its flags; what to run follows."""
    read_only: Mapping[Path, str]
    """Host folders to show inside, by where they appear."""

    def holds(self, path: Path) -> bool:
        """Is a file of the host seen inside?"""
        return any(path.is_relative_to(folder) for folder in (*self.read_only, _SHOWN_ANYWAY))


def python_environment() -> PythonEnvironment:
    """Raises SandboxUnavailable where showing the interpreter's folders would show more than Python."""
    if not sys.executable:
        raise SandboxUnavailable("Python does not know its own program (sys.executable): start it by its full path")
    executable = Path(sys.executable).parent.resolve() / Path(sys.executable).name
    folders = [Path(sys.prefix).resolve(), Path(sys.base_prefix), Path(sys.base_prefix).resolve()]
    # A virtual environment's program is a link, to a program that may be a link again.
    links = [executable]
    while links[-1].is_symlink():
        links.append(links[-1].parent / links[-1].readlink())
    folders += [link.parent for link in links]
    shown: list[Path] = []
    for folder in folders:
        if not any(folder.is_relative_to(known) for known in (*shown, _SHOWN_ANYWAY)):
            _require_only_python(folder)
            shown.append(folder)
    return PythonEnvironment(argv=(str(executable), *_FLAGS), read_only={folder: str(folder) for folder in shown})


def _require_only_python(folder: Path) -> None:
    beside_python = (Path(os.path.expanduser("~")), Path("/etc"))
    if any(other.is_relative_to(folder) for other in beside_python):
        raise SandboxUnavailable(
            f"Python is installed in {folder}, beside other files, which a sandbox must not show: run from a virtual "
            "environment (python3 -m venv) of a Python in a folder of its own"
        )
