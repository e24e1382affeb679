"""Kernels of the corpus, read from their files: hostile or wrong ones with what must become of them, and honest ones.

A file opens with `// key: value` lines:

    // what: the mechanism in one sentence, with its source where one is known
    // task: rmsnorm            a name in `tasks.TASKS`
    // expected: wrong_values   reasons, several only where timing on a busy machine can produce either; `no_win` for a
    //                          kernel that is merely measured and must not win. Honest kernels have no such line
    // stage: race              the judge alone accepts it, the race must not; without the line the judge rejects it
    // threads: 2               of the task, without the line 1
    // defence: freeze          what alone keeps it out

and with what the language itself reads there: `prepare`, `flags`, `entry`, `launch`. Kernels in `open` gain something
that nothing keeps from them yet; no test reads them.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tasks import TASKS

from candidates.candidate import Candidate
from candidates.judge.defences import Defence
from candidates.languages.cpp import CppLanguage
from candidates.task import KernelTask
from candidates.verdict import Reason

FOLDER = Path(__file__).parent
_OF_THE_LANGUAGE = {"prepare", "flags", "entry", "launch"}
_OURS = {"what", "task", "expected", "stage", "threads", "defence"}


class Stage(StrEnum):
    JUDGE = "judge"
    RACE = "race"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    path: Path
    candidate: Candidate
    what: str
    task_name: str
    expected: frozenset[Reason]
    may_lose: bool
    """A measurement without a win is as good as a rejection."""
    stage: Stage
    threads: int
    defence: Defence | None

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def task(self) -> KernelTask:
        task = TASKS[self.task_name]()
        return task if self.threads == task.threads else task.model_copy(update={"threads": self.threads})


class CorpusError(ValueError):
    """A file of the corpus whose header says too little, or what nobody knows."""


def load_attacks() -> list[Kernel]:
    return [_checked(read_kernel(path)) for path in sorted((FOLDER / "attacks").glob("*.cpp"))]


def load_honest() -> list[Kernel]:
    kernels = [read_kernel(path) for path in sorted((FOLDER / "honest").glob("*.cpp"))]
    for kernel in kernels:
        if kernel.expected or kernel.may_lose or kernel.defence:
            raise CorpusError(f"{kernel.path}: nothing but acceptance is expected of an honest kernel")
    return kernels


def read_kernel(path: Path) -> Kernel:
    """Raises CorpusError."""
    header = _read_header(path)
    for key in ("what", "task"):
        if key not in header:
            raise CorpusError(f"{path}: no `// {key}:` line")
    if header["task"] not in TASKS:
        raise CorpusError(f"{path}: no task {header['task']!r}; there are {', '.join(TASKS)}")
    expected = {word.strip() for word in header.get("expected", "").split(",") if word.strip()}
    may_lose = "no_win" in expected
    try:
        return Kernel(
            path=path,
            candidate=CppLanguage().parse(path),
            what=header["what"],
            task_name=header["task"],
            expected=frozenset(Reason(word) for word in expected - {"no_win"}),
            may_lose=may_lose,
            stage=Stage(header.get("stage", Stage.JUDGE)),
            threads=int(header.get("threads", "1")),
            defence=Defence(header["defence"]) if "defence" in header else None,
        )
    except ValueError as error:
        raise CorpusError(f"{path}: {error}") from error


def _checked(kernel: Kernel) -> Kernel:
    if not kernel.expected and not kernel.may_lose:
        raise CorpusError(f"{kernel.path}: no `// expected:` line: what must become of an attack is always said")
    if kernel.may_lose and kernel.stage is not Stage.RACE:
        raise CorpusError(f"{kernel.path}: only a race can be not won")
    return kernel


def _read_header(path: Path) -> dict[str, str]:
    header: dict[str, str] = {}
    last = ""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.startswith("// "):
            break
        key, colon, value = line.removeprefix("// ").partition(": ")
        if colon and key in _OURS | _OF_THE_LANGUAGE:
            if key in header:
                raise CorpusError(f"{path}:{number}: a second `{key}:` line")
            header[key] = value.strip()
            last = key
        elif last == "what" and line.startswith("//     "):
            header[last] += f" {line.removeprefix('//').strip()}"
        else:
            raise CorpusError(f"{path}:{number}: {line!r} is no line of a header; keys are {', '.join(sorted(_OURS))}")
    return header
