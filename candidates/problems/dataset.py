"""Results as files of a FlashInfer-Bench dataset, beside whatever is there already.

Definitions, workloads and solutions that are there stay; traces are added. A file appears whole or not at all, and
those that others refer to come first.
"""

from collections.abc import Sequence
from pathlib import Path

from candidates.problems.documents import Definition, Document
from candidates.problems.flashinfer_bench import read_document
from candidates.problems.problem import ProblemError, read_text
from candidates.problems.results import Results
from candidates.problems.solution import AUTHOR
from candidates.whole_file import write_whole


def write_results(results: Results, root: Path) -> Path:
    """The definition's path. Raises ProblemError where `root` has another definition of that name."""
    definition = results.definition
    name, op_type = definition.name, definition.op_type
    found = sorted((root / "definitions").rglob(f"{name}.json"))
    path = found[0] if found else root / "definitions" / op_type / f"{name}.json"
    if found and _meaning(read_document(Definition, path)) != _meaning(definition):
        raise ProblemError(f"{path}: holds another definition {name}: export to another folder, or remove it")
    if not found:
        write_whole(path, _text(definition))
    if not list((root / "workloads").rglob(f"{name}.jsonl")):
        write_whole(root / "workloads" / op_type / f"{name}.jsonl", _lines(results.workloads))
    for solution in results.solutions:
        place = root / "solutions" / AUTHOR / op_type / name / f"{solution.name}.json"
        if not place.exists():
            write_whole(place, _text(solution))
    traces = root / "traces" / AUTHOR / op_type / f"{name}.jsonl"
    known = read_text(traces) if traces.exists() else ""
    if known and not known.endswith("\n"):
        known += "\n"
    already = set(known.splitlines())
    new = [trace for trace in results.traces if trace.model_dump_json() not in already]
    if new:
        write_whole(traces, known.encode() + _lines(new))
    return path


def _meaning(definition: Definition) -> tuple[object, ...]:
    """Without what may be edited freely, such as descriptions and tags."""
    return definition.axes, definition.inputs, definition.outputs, definition.reference


def _text(document: Document) -> bytes:
    return document.model_dump_json(indent=2).encode() + b"\n"


def _lines(documents: Sequence[Document]) -> bytes:
    return b"".join(document.model_dump_json().encode() + b"\n" for document in documents)
