"""What the llm agent is given: models to ask, and what it may tell them of the device, the compiler and the past."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from candidates.agent import Attempt
from candidates.candidate import Candidate, LanguageName
from candidates.language import KernelLanguage
from candidates.spending import BudgetStop
from candidates.task import KernelTask
from compiler_agent.models.completion import Effort, ModelRequest
from compiler_agent.models.metered import PaidCompletion


class PaidModel(Protocol):
    """A model whose calls are paid for within a budget: `MeteredModel`, or a script."""

    def complete(self, call_id: str, request: ModelRequest, accounts: tuple[str, ...]) -> PaidCompletion | BudgetStop:
        """The answer to `call_id`; the same id again gives the stored answer. Called from several threads at once.

        Raises ModelUnavailable and ModelRejectedRequest, unbilled.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Collaborators:
    """All callables are asked from one thread, once a round at most for the same arguments."""

    open_model: Callable[[str], PaidModel]
    """By endpoint name."""
    languages: Mapping[LanguageName, KernelLanguage]
    store: Callable[[bytes], str]
    """Keeps a blob; its digest."""
    device_facts: Callable[[KernelTask], str]
    """Plain lines: model, caches, measured ceilings."""
    compiler_report: Callable[[KernelTask, Candidate], str]
    """Remarks on vectorisation and the assembly of hot loops; empty where there is none."""
    past_winners: Callable[[KernelTask], tuple[Attempt, ...]]
    """Of similar tasks, the most similar first."""
    memory: Callable[[KernelTask], tuple[str, ...]]
    """Short lessons of earlier searches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    samples: int = 4
    """Kernels asked for in a round, at most."""
    beam_parents: int = 2
    repairs_in_line: int = 2
    """Rejected kernels in a row that are repaired; the next one of the line is given up."""
    max_output_tokens: int = 16_000
    max_diagnosis_tokens: int = 6_000
    """Thinking included, of both."""
    timeout_s: float = 600.0
    effort: Effort | None = None
    """Models that do not think refuse any."""
    language: LanguageName | None = None
    """None: as the task asks for."""
