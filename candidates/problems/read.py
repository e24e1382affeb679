"""Which problems a path holds: a KernelBench file or a folder of them, a FlashInfer-Bench definition or dataset."""

from pathlib import Path

from candidates.problems.flashinfer_bench import dataset_of, read_dataset, read_definition
from candidates.problems.kernelbench import find_problem_files, read_problem
from candidates.problems.problem import Problem, ProblemError


def read_problems(path: Path) -> list[Problem]:
    """Recognised by name and place: `.py`, `.json`, a folder with `definitions/`, another folder with problem files.

    Everything is read before anything runs. Raises ProblemError for the first file that cannot be used.
    """
    if path.is_dir():
        if (path / "definitions").is_dir():
            problems = read_dataset(path)
        else:
            problems = [read_problem(file) for file in find_problem_files(path)]
        if not problems:
            raise ProblemError(
                f"{path}: no problems: a KernelBench folder has .py files that define Model and get_inputs, a "
                "FlashInfer-Bench dataset has definitions/<op type>/<name>.json"
            )
        return problems
    if path.suffix == ".py":
        return [read_problem(path)]
    if path.suffix == ".json":
        return [read_definition(path, dataset_of(path))]
    if not path.exists():
        raise ProblemError(f"no file or folder {path}")
    raise ProblemError(f"{path}: problems are .py files (KernelBench) and .json files (FlashInfer-Bench)")
