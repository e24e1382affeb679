"""A program of NVIDIA's that is not one: a script that runs what follows its options and writes a report."""

import sys
from pathlib import Path

from candidates.judge.watcher import Program

_FOLDER = "/watchers"
_SCRIPT = """#!{python} -IB
import os, pathlib, subprocess, sys

words = sys.argv[1:]
options = {{}}
while words and words[0].startswith("--"):
    option = words.pop(0)
    options[option] = words.pop(0) if option not in {flags} else ""
log = pathlib.Path(options["--log-file"])
source = pathlib.Path("/scratch/kernel.py")
kernel = source.read_text() if source.exists() else ""


def run():
    descriptors = [int(word) for word in words[-4::2]]  # of the arena
    return subprocess.run(words, pass_fds=descriptors, check=False).returncode


{body}
"""


def fake_program(folder: Path, name: str, body: str, flags: tuple[str, ...] = ("--csv",)) -> Program:
    """`body` has `options` (by name), `log` (a path), `kernel` (the source on trial, empty without one) and `run`."""
    script = folder / name
    python = Path(sys.executable).parent.resolve() / Path(sys.executable).name
    script.write_text(_SCRIPT.format(python=python, flags=flags, body=body))
    script.chmod(0o755)
    folder.chmod(0o755)  # in a container nobody runs it
    return missing_program(name, {folder: _FOLDER})


def missing_program(name: str, read_only: dict[Path, str] | None = None) -> Program:
    return Program(
        name=name, places=("/nowhere/at/all", f"{_FOLDER}/{name}"), read_only=read_only or {}, advice="install it"
    )
