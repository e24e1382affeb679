"""Watcher: a program of NVIDIA's that a runner runs under, looked for where a sandbox has it, and what it reports.

compute-sanitizer and ncu start what they watch with their own standard streams and open descriptors, and write what
they found to a file. A shell around them prints that file once they have ended: in a container nothing of the scratch
folder outlives its program. The file can be written by whatever runs inside: what it says is for authors who err.
"""

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from candidates.languages.cuda_toolkit import wheel_folders
from kernel_sandbox.python_environment import python_environment
from kernel_sandbox.sandbox import SCRATCH, Ending, Finished, Limits, Sandbox

LOG_FILE = f"{SCRATCH}/watcher.log"
LOG_BYTES = 256 << 10
"""Of the report; its beginning."""
_MISSING_STATUS = 127
_TOOLKITS = ("/usr/local/cuda", "/opt/cuda")
_NSIGHT_COMPUTE = "/opt/nvidia/nsight-compute"
_SHOWN = ("/opt/cuda", _NSIGHT_COMPUTE)
"""Folders of the host that a sandbox shows where they are; /usr it has anyway, its own or the host's."""

# Statuses above 125 are left to shells, and that of a kill to those who kill.
_SCRIPT = f"""
log=$1 marker=$2 places=$3
shift 3
IFS=
program=
while [ "$places" -gt 0 ]; do
  if [ -z "$program" ]; then
    for each in $1; do [ -x "$each" ] && program=$each; done
  fi
  shift; places=$((places - 1))
done
[ -n "$program" ] || exit {_MISSING_STATUS}
status=0
"$program" "$@" || status=$?
printf '\\n%s\\n' "$marker" >&2
[ ! -e "$log" ] || head -c {LOG_BYTES} "$log" >&2
[ "$status" -lt 126 ] || status=1
exit "$status"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    name: str
    places: tuple[str, ...]
    """Where it may lie inside a sandbox; patterns of a shell, of which the last match counts."""
    read_only: Mapping[Path, str]
    """Host folders to show for it, by where they appear."""
    advice: str
    """Where to have it from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    program: Program
    options: Sequence[str]
    """Up to what is watched; they name LOG_FILE as the file of its report."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """For what is watched."""
    marker: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def command(self) -> tuple[str, ...]:
        """What it watches follows."""
        places = self.program.places
        return ("/bin/sh", "-c", _SCRIPT, "sh", LOG_FILE, self.marker, str(len(places)), *places, *self.options)

    def is_missing(self, finished: Finished) -> bool:
        return finished.ending is Ending.EXITED and finished.exit_code == _MISSING_STATUS

    def report(self, finished: Finished) -> str:
        """Empty where there is none: the program is missing, was killed, or wrote nothing."""
        _, marker, report = finished.log.rpartition(self.marker)
        return report.lstrip("\n") if marker else ""


def has_program(sandbox: Sandbox, program: Program) -> bool:
    """Whether the sandbox shows it; that it can watch a GPU is not said. Raises SandboxError as the sandbox does."""
    watcher = Watcher(program=program, options=("--version",))
    shown = {**python_environment().read_only, **program.read_only}
    with sandbox.open(Limits(limits_address_space=False), shown) as session:
        return not watcher.is_missing(session.run(watcher.command))


def compute_sanitizer() -> Program:
    return Program(
        name="compute-sanitizer",
        places=tuple(_places("compute-sanitizer")),
        read_only=_shown(),
        advice=(
            "it comes with NVIDIA's CUDA toolkit, or from PyPI (pip install 'nvidia-cuda-sanitizer-api>=13.5'), and is "
            "looked for in /usr/local/bin, /usr/local/cuda/bin, /opt/cuda/bin and this Python's environment"
        ),
    )


def ncu() -> Program:
    return Program(
        name="ncu",
        places=(*_places("ncu"), f"{_NSIGHT_COMPUTE}/*/ncu"),
        read_only=_shown(),
        advice=(
            "it is Nsight Compute's, comes with NVIDIA's CUDA toolkit, and is looked for in /usr/local/bin, "
            f"/usr/local/cuda/bin, /opt/cuda/bin and {_NSIGHT_COMPUTE}"
        ),
    )


def _places(name: str) -> Iterator[str]:
    yield from (f"{folder}/{name}" for folder in ("/usr/local/bin", "/usr/bin"))
    yield from (f"{toolkit}/bin/{name}" for toolkit in _TOOLKITS)
    yield str(Path(sys.prefix).resolve() / "bin" / name)
    yield from (f"{folder.resolve()}/cu[0-9]*/bin/{name}" for folder in wheel_folders())


def _shown() -> dict[Path, str]:
    return {Path(folder): folder for folder in _SHOWN if Path(folder).is_dir()}
