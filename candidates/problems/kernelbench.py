"""KernelBench problem files: Python with `Model`, `get_inputs` and, where the model takes any, `get_init_inputs`.

The convention is that of github.com/ScalingIntelligence/KernelBench. Nothing of a file runs here. Its one shape is
what its module-level constants say, and there are no hidden ones.
"""

from pathlib import Path

from candidates.problems.problem import ModelSource, Problem, ProblemError, defined_names, read_text

_NEEDED = ("Model", "get_inputs")


def find_problem_files(folder: Path) -> list[Path]:
    """The Python files below `folder` that define what a problem must; others are passed over."""
    return [path for path in sorted(folder.rglob("*.py")) if not _missing(path, read_text(path))]


def read_problem(path: Path) -> Problem:
    """Raises ProblemError with the line that is wrong, or with what the file lacks."""
    source = read_text(path)
    if missing := _missing(path, source):
        raise ProblemError(
            f"{path}:1: no KernelBench problem: it does not define {' and '.join(missing)}; a problem is a file with "
            "`class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`"
        )
    return Problem(name=path.stem, site=f"kernelbench:{path.name}", source=ModelSource(source=source))


def _missing(path: Path, source: str) -> list[str]:
    defined = defined_names(source, str(path))
    return [name for name in _NEEDED if name not in defined]
