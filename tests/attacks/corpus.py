"""Kernels of the corpus, read from their files: hostile or wrong ones with what must become of them, and honest ones.

A file opens with `// key: value` lines:

    // what: the mechanism in one sentence, with its source where one is known
    // task: rmsnorm            a name in `tasks.TASKS`
    // expected: wrong_values   reasons, several only where timing on a busy machine can produce either; `no_win` for a
    //                          kernel that is merely measured and must not win. Honest kernels have no such line
    // stage: race              the judge alone accepts it, the race must not; without the line the judge rejects it
    // threads: 2               of the task, without the line 1
    // defence: freeze          what alone keeps it out

    // alone: library_call      reasons of the judge itself, where rules for the source keep it out before that and say
    //                          otherwise; `needs_device` where the judge cannot tell, `accepted` where it may do no
    //                          harm; without the line as `expected`
    // only_static: why         the judge itself would accept it

and with what the language itself reads there: `prepare`, `flags`, `entry`, `launch`. In Python lines open with `#`.
Kernels in `open` gain something that nothing keeps from them yet; no test reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest
from tasks import TASKS

from candidates.candidate import Candidate
from candidates.judge.defences import Defence
from candidates.language import KernelLanguage
from candidates.languages.cpp import CppLanguage
from candidates.languages.triton import TritonLanguage
from candidates.task import KernelTask
from candidates.verdict import Reason

FOLDER = Path(__file__).parent
_OF_THE_LANGUAGE = {"prepare", "flags", "entry", "launch"}
_OURS = {"what", "task", "expected", "stage", "threads", "defence", "alone", "only_static"}
NO_WIN, NEEDS_DEVICE, ACCEPTED = "no_win", "needs_device", "accepted"


class Stage(StrEnum):
    JUDGE = "judge"
    RACE = "race"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Where the kernels of one language are."""

    language: KernelLanguage
    folder: Path
    suffix: str
    comment: str


CPP = Shelf(language=CppLanguage(), folder=FOLDER, suffix=".cpp", comment="//")
TRITON = Shelf(language=TritonLanguage(), folder=FOLDER / "triton", suffix=".py", comment="#")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    path: Path
    candidate: Candidate
    what: str
    task_name: str
    expected: frozenset[str]
    """Reasons; `no_win` where a measurement without a win is as good as a rejection, `needs_device` for an honest
    kernel that nothing here can run."""
    stage: Stage
    threads: int
    defence: Defence | None
    alone: frozenset[str]
    """Outcomes of the judge without rules for the source: reasons, `needs_device` or `accepted`."""

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def task(self) -> KernelTask:
        task = TASKS[self.task_name]()
        return task if self.threads == task.threads else task.model_copy(update={"threads": self.threads})


class CorpusError(ValueError):
    """A file of the corpus whose header says too little, or what nobody knows."""


def load_attacks(shelf: Shelf = CPP) -> list[Kernel]:
    return [_checked(read_kernel(path, shelf)) for path in sorted((shelf.folder / "attacks").glob(f"*{shelf.suffix}"))]


def load_honest(shelf: Shelf = CPP) -> list[Kernel]:
    kernels = [read_kernel(path, shelf) for path in sorted((shelf.folder / "honest").glob(f"*{shelf.suffix}"))]
    for kernel in kernels:
        if kernel.expected - {NEEDS_DEVICE} or kernel.defence:
            raise CorpusError(f"{kernel.path}: nothing but acceptance is expected of an honest kernel")
    return kernels


def read_kernel(path: Path, shelf: Shelf) -> Kernel:
    """Raises CorpusError."""
    header = _read_header(path, shelf.comment)
    for key in ("what", "task"):
        if key not in header:
            raise CorpusError(f"{path}: no `{shelf.comment} {key}:` line")
    if header["task"] not in TASKS:
        raise CorpusError(f"{path}: no task {header['task']!r}; there are {', '.join(TASKS)}")
    if {"alone", "only_static"} <= set(header):
        raise CorpusError(f"{path}: `only_static:` says what the judge alone says: accepted")
    expected = _words(header.get("expected", ""))
    try:
        return Kernel(
            path=path,
            candidate=shelf.language.parse(path),
            what=header["what"],
            task_name=header["task"],
            expected=expected,
            stage=Stage(header.get("stage", Stage.JUDGE)),
            threads=int(header.get("threads", "1")),
            defence=Defence(header["defence"]) if "defence" in header else None,
            alone=frozenset({ACCEPTED}) if "only_static" in header else _words(header.get("alone", "")) or expected,
        )
    except ValueError as error:
        raise CorpusError(f"{path}: {error}") from error


def _words(text: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    for word in words - {NO_WIN, NEEDS_DEVICE, ACCEPTED}:
        Reason(word)
    return words


def _checked(kernel: Kernel) -> Kernel:
    if not kernel.expected:
        raise CorpusError(f"{kernel.path}: no `expected:` line: what must become of an attack is always said")
    if NO_WIN in kernel.expected and kernel.stage is not Stage.RACE:
        raise CorpusError(f"{kernel.path}: only a race can be not won")
    return kernel


def _read_header(path: Path, comment: str) -> dict[str, str]:
    header: dict[str, str] = {}
    last = ""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.startswith(f"{comment} "):
            break
        key, colon, value = line.removeprefix(f"{comment} ").partition(": ")
        if colon and key in _OURS | _OF_THE_LANGUAGE:
            if key in header:
                raise CorpusError(f"{path}:{number}: a second `{key}:` line")
            header[key] = value.strip()
            last = key
        elif last in ("what", "only_static") and line.startswith(f"{comment}     "):
            header[last] += f" {line.removeprefix(comment).strip()}"
        else:
            raise CorpusError(f"{path}:{number}: {line!r} is no line of a header; keys are {', '.join(sorted(_OURS))}")
    return header


def each(kernels: Sequence[Kernel], *, quick_one_in: int = 1) -> pytest.MarkDecorator:
    """One parameter a kernel; all but one in `quick_one_in` are slow tests: `make test` grows less than the corpus."""
    parameters = [
        pytest.param(kernel, marks=[] if place % quick_one_in == 0 else pytest.mark.slow, id=kernel.name)
        for place, kernel in enumerate(kernels)
    ]
    return pytest.mark.parametrize("kernel", parameters)
