"""KernelLanguage: what it takes to write, build and call a kernel in one language."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from candidates.candidate import Candidate, LanguageName
from candidates.device import kind_of_device
from candidates.task import KernelTask
from candidates.verdict import Reason


class SourceRefused(Exception):
    """The candidate asks for something that its language does not allow; the author is at fault."""

    def __init__(self, message: str, reason: Reason = Reason.FORBIDDEN_BUILD_FLAG) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecipe:
    """Files to put into a sandbox, commands to run there, and the artifact that they leave."""

    files: Mapping[str, bytes]
    commands: tuple[tuple[str, ...], ...]
    artifact: str
    read_only: Mapping[Path, str] = field(default_factory=dict)
    """Host folders that the commands need, by where they appear inside."""
    toolchain: str | None = None
    """Names the versions of all that the commands run: what is built of equal files by equal commands and toolchains
    is the same, and kept outside the sandbox. None: built every time."""


def language_for(task: KernelTask) -> LanguageName:
    """What agents write for a task where nobody says otherwise."""
    is_for_gpu = bool(task.architectures) or kind_of_device(task.device_id) in ("cuda", "rocm")
    return LanguageName.TRITON if is_for_gpu else LanguageName.CPP


class KernelLanguage(Protocol):
    name: LanguageName

    def brief(self, task: KernelTask) -> str:
        """The exact signature of the entries for this task, and the rules, for an author (a person or a model)."""
        ...

    def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """Raises SourceRefused for flags, entries and whatever else is refused before anything runs."""
        ...

    def parse_source(self, text: str, name: str) -> Candidate:
        """A candidate's text: the source with a short header. Raises ValueError with `name` and line."""
        ...

    def parse(self, path: Path) -> Candidate:
        """A file with such a text. Raises ValueError with file and line, also for one that is not UTF-8."""
        ...
