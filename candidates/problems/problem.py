"""Problem: what one file of a public suite asks for, read but not yet run."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from candidates.extraction import Obstacle
from candidates.problems.documents import Definition, Trace
from candidates.record import Record
from candidates.task import InputSpec, TensorSpec, Workload


class ProblemError(Exception):
    """A file that is no problem: the user's to mend; the message says file, line and next step."""


class ModelSource(Record):
    """A KernelBench file: shapes, types and values of the inputs are known once it has run."""

    format: Literal["kernelbench"] = "kernelbench"
    source: str


class FixedScalar(Record):
    """An argument that is no tensor; a kernel has it built in."""

    value: bool | int | float


class DefinitionSource(Record):
    """The reference of a FlashInfer-Bench definition: a function `run` of known arguments."""

    format: Literal["flashinfer-bench"] = "flashinfer-bench"
    source: str
    arguments: tuple[InputSpec | FixedScalar, ...]
    outputs: tuple[TensorSpec, ...]
    """As the definition declares them, every one in row-major order."""
    axes: tuple[str, ...]
    workloads: tuple[Workload, ...]
    covered_share: float = Field(ge=0, le=1)


ProblemSource = Annotated[ModelSource | DefinitionSource, Field(discriminator="format")]


class DefinitionDocuments(Record):
    """What a task was made from, kept as it was read, so that its results go back to the same definition."""

    definition: Definition
    workloads: tuple[Trace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    name: str
    """Also the op of its task."""
    site: str
    """`kernelbench:level1/23_Softmax.py`: in place of a place in a served model."""
    source: ModelSource | DefinitionSource | Obstacle
    documents: DefinitionDocuments | None = None


def read_text(path: Path) -> str:
    """Raises ProblemError for a file that is missing or is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ProblemError(f"no file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{path}: cannot be read as UTF-8 text: {error}") from error


def defined_names(source: str, place: str) -> set[str]:
    """Names of the functions and classes that Python `source` defines at its top level; nothing is run.

    `place` is where a message says that the source is. Raises ProblemError with the line of what is no Python.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ProblemError(f"{place}:{error.lineno}:{error.offset}: no Python: {error.msg}; mend it") from error
    except ValueError as error:
        raise ProblemError(f"{place}: no Python: {error}; mend it") from error
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
