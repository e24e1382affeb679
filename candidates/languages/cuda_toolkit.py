"""CudaToolkit: where this machine keeps NVIDIA's compiler, and which versions it runs.

It comes from PyPI (`pip install 'compiler-agent[cuda]'`), else from NVIDIA's installer. Finding it runs `nvcc` and
`g++`, which are the machine's own, for their versions alone.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from candidates.builder import CompilerUnavailable

_ADVICE = "pip install 'compiler-agent[cuda]', or install NVIDIA's CUDA toolkit and put its nvcc on PATH"
_USUAL_PLACES = ("/usr/local/cuda", "/opt/cuda")
_LIBRARY_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_INCLUDE_FOLDERS = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
_RUNTIME = re.compile(r"libcudart\.so\.(\d+)")
_ASKED_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolkit:
    root: Path
    """With bin/nvcc and nvvm/ below it, all of one release or of PyPI packages that fit each other."""
    include: str
    """Below the root; NVIDIA's C++ libraries are in its folder `cccl`, where there is one."""
    library: str
    """Below the root, the folder of `runtime`."""
    runtime: str
    """`libcudart.so.13`, by which a kernel's shared object asks for it."""
    versions: str
    """Of all that a build runs: `nvcc 13.0.88, ptxas 13.0.88, g++ 12.2.0`."""


def find_toolkit() -> CudaToolkit:
    """PyPI's first, then the one on PATH. Raises CompilerUnavailable with the fix."""
    return find_toolkit_among(_roots())


def find_toolkit_among(roots: Iterable[Path]) -> CudaToolkit:
    """In the first folder that has all of it. Raises CompilerUnavailable with the fix."""
    tried = []
    for root in roots:
        if not (root / "bin" / "nvcc").is_file():
            continue
        include = next((name for name in _INCLUDE_FOLDERS if (root / name / "cuda_runtime.h").is_file()), None)
        runtime = next(
            (
                (name, path.name)
                for name in _LIBRARY_FOLDERS
                for path in sorted((root / name).glob("libcudart.so.*"))
                if _RUNTIME.fullmatch(path.name)
            ),
            None,
        )
        if include is None or runtime is None or not (root / "nvvm").is_dir():
            tried.append(f"{root} lacks {_missing(include, runtime)}")
            continue
        return CudaToolkit(
            root=root.resolve(), include=include, library=runtime[0], runtime=runtime[1], versions=_versions(root)
        )
    raise CompilerUnavailable(f"no CUDA compiler: {'; '.join(tried) or 'no nvcc found'}: {_ADVICE}")


def _roots() -> Iterator[Path]:
    """Each is looked for when those before it will not do."""
    for folder in wheel_folders():
        yield from sorted(folder.glob("cu[0-9]*"), reverse=True)
    if (nvcc := shutil.which("nvcc")) is not None:
        yield root_of(nvcc)
    yield from map(Path, _USUAL_PLACES)


def wheel_folders() -> tuple[Path, ...]:
    """Where NVIDIA's packages from PyPI lie, in a folder for each of its releases (`cu13`)."""
    wheels = importlib.util.find_spec("nvidia")
    return () if wheels is None else tuple(map(Path, wheels.submodule_search_locations or ()))


def root_of(nvcc: str) -> Path:
    """What is on PATH may be a script that starts the real one."""
    said = _ask([nvcc, "--dryrun", "-E", "-x", "cu", "/dev/null"])
    found = re.search(r"^#\$ _HERE_=(.+)$", said, re.M)
    return Path(found[1] if found else Path(nvcc).resolve().parent).parent


def _versions(root: Path) -> str:
    if shutil.which("g++") is None:
        raise CompilerUnavailable("nvcc needs a host compiler and there is no g++: install it (apt install g++)")
    versions = [("g++", _ask(["g++", "-dumpfullversion"]).strip())]
    for name in ("ptxas", "nvcc"):
        found = re.search(r"\bV(\d[\d.]*)", _ask([str(root / "bin" / name), "--version"]))
        if found is None:
            raise CompilerUnavailable(f"{root / 'bin' / name} does not say its version: {_ADVICE}")
        versions.insert(0, (name, found[1]))
    return ", ".join(f"{name} {version}" for name, version in versions)


def _ask(command: list[str]) -> str:
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASKED_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerUnavailable(f"{command[0]} does not run ({error}): {_ADVICE}") from error
    return asked.stdout + asked.stderr


def _missing(include: str | None, runtime: tuple[str, str] | None) -> str:
    if include is None:
        return "cuda_runtime.h"
    return "libcudart.so" if runtime is None else "nvvm/"
