"""RoundCalls: the model calls of one round; each sample ends as a kernel, or as the reason for none.

They are made in parallel; those that the budget had no room for then, one by one after the others have settled.

Ids are made from the round's, so that a round that is asked for again gets the answers that were paid for. Results are
in the order of the samples, whoever answers first.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from candidates.language import KernelLanguage
from candidates.spending import BudgetStop
from candidates.transcript import Purpose, Turn
from compiler_agent.agents.duplicates import key_of
from compiler_agent.agents.llm.collaborators import PaidModel
from compiler_agent.agents.llm.prompts import ask_again
from compiler_agent.agents.llm.quoting import in_one_line
from compiler_agent.agents.llm.replies import Kernel, NoKernel, read_kernel
from compiler_agent.models.completion import (
    Broken,
    CutOff,
    Effort,
    Empty,
    Filtered,
    ModelRejectedRequest,
    ModelRequest,
    ModelUnavailable,
    Outcome,
    Refused,
    Reply,
    UserMessage,
)
from compiler_agent.models.metered import PaidCompletion

T = TypeVar("T")
R = TypeVar("R")
_MOST_PROBLEM_CHARACTERS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`question` asked of `endpoint`, for a kernel or a diagnosis."""

    place: int
    """In the round, from 0."""
    purpose: Purpose
    endpoint: str
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    kernel: Kernel
    endpoint: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The model answered twice, and neither answer holds a kernel that was not tried before."""

    problem: str
    is_repetition: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Nobody answered, or the endpoint will not take the request."""

    endpoint: str
    message: str


SampleEnd = Written | Unusable | Failed | BudgetStop


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed:
    reply: str
    """Empty where the model said nothing whole."""
    turn: Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCalls:
    models: Mapping[str, PaidModel]
    language: KernelLanguage
    prefix: str
    round_id: str
    accounts: tuple[str, ...]
    tried: frozenset[str]
    """Keys of the candidates that were tried (`duplicates.key_of`)."""
    max_output_tokens: int
    max_diagnosis_tokens: int
    timeout_s: float
    effort: Effort | None

    def diagnose(self, samples: Sequence[Sample]) -> list[Diagnosed | None]:
        """None where the budget or the model did not allow one."""

        def ask(sample: Sample) -> Diagnosed | None:
            call_id = f"{self.round_id}/diagnosis-{sample.place}"
            answer = self._ask(call_id, sample.endpoint, sample.question, self.max_diagnosis_tokens)
            if not isinstance(answer, PaidCompletion):
                return None
            outcome = answer.completion.outcome
            return Diagnosed(
                reply=outcome.text if isinstance(outcome, Reply) else "",
                turn=_turn(sample.purpose, call_id, sample.endpoint, answer),
            )

        return _in_parallel(ask, samples)

    def write(self, samples: Sequence[Sample]) -> list[SampleEnd]:
        """One end for each sample, in their order. What a model that fails was to write, another one is asked for."""
        ends = self._write_all(samples, "sample")
        failed = {end.endpoint for end in ends if isinstance(end, Failed)}
        others = [endpoint for endpoint in self.models if endpoint not in failed]
        if not failed or not others:
            return ends
        left = [
            Sample(
                place=sample.place,
                purpose=sample.purpose,
                endpoint=others[sample.place % len(others)],
                question=sample.question,
            )
            for sample, end in zip(samples, ends, strict=True)
            if isinstance(end, Failed)
        ]
        instead = dict(zip((sample.place for sample in left), self._write_all(left, "instead"), strict=True))
        return [instead.get(sample.place, end) for sample, end in zip(samples, ends, strict=True)]

    def _write_all(self, samples: Sequence[Sample], kind: str) -> list[SampleEnd]:
        ends = _in_parallel(lambda sample: self._write(sample, kind), samples)
        # A cap that has room for one reservation more, but not for all at once, is not spent: alone, each may fit.
        return [
            self._write(sample, kind) if isinstance(end, BudgetStop) else end
            for sample, end in zip(samples, ends, strict=True)
        ]

    def _write(self, sample: Sample, kind: str) -> SampleEnd:
        turns: list[Turn] = []
        question = sample.question
        problem, is_repetition = "", False
        again = "again" if kind == "sample" else f"{kind}-again"
        for name in (kind, again):
            call_id = f"{self.round_id}/{name}-{sample.place}"
            answer = self._ask(call_id, sample.endpoint, question, self.max_output_tokens)
            if not isinstance(answer, PaidCompletion):
                # A model that falls silent between the two is no reason to ask another one.
                if isinstance(answer, Failed) and turns:
                    return Unusable(problem=problem, is_repetition=is_repetition)
                return answer
            turns.append(_turn(sample.purpose, call_id, sample.endpoint, answer, is_second_try=bool(turns)))
            outcome = answer.completion.outcome
            kernel = self._read(outcome)
            is_repetition = isinstance(kernel, Kernel) and key_of(kernel.candidate) in self.tried
            if isinstance(kernel, Kernel) and not is_repetition:
                return Written(kernel=kernel, endpoint=sample.endpoint, turns=tuple(turns))
            problem = "the kernel is one that was tried before" if isinstance(kernel, Kernel) else kernel.problem
            question = ask_again(sample.question, problem, is_too_long=isinstance(outcome, CutOff))
        return Unusable(problem=problem, is_repetition=is_repetition)

    def _read(self, outcome: Outcome) -> Kernel | NoKernel:
        match outcome:
            case Reply(text=text):
                return read_kernel(self.language, text)
            case CutOff(limit=limit):
                return NoKernel(problem=f"the answer was cut off at {limit}")
            case Empty():
                return NoKernel(problem="the answer was empty")
            case Refused(explanation=words):
                problem = f"the model refused: {words}"
            case Filtered(explanation=words):
                problem = f"a filter held the answer back: {words}"
            case Broken(problem=words):
                problem = f"the answer broke off: {words}"
        return NoKernel(problem=in_one_line(problem, _MOST_PROBLEM_CHARACTERS))

    def _ask(self, call_id: str, endpoint: str, question: str, max_tokens: int) -> PaidCompletion | BudgetStop | Failed:
        request = ModelRequest(
            prefix=self.prefix,
            messages=(UserMessage(text=question),),
            max_output_tokens=max_tokens,
            effort=self.effort,
            timeout_s=self.timeout_s,
        )
        try:
            return self.models[endpoint].complete(call_id, request, self.accounts)
        except (ModelUnavailable, ModelRejectedRequest) as error:
            return Failed(endpoint=endpoint, message=in_one_line(str(error), _MOST_PROBLEM_CHARACTERS))


def _turn(
    purpose: Purpose, call_id: str, endpoint: str, answer: PaidCompletion, *, is_second_try: bool = False
) -> Turn:
    return Turn(
        purpose=purpose,
        is_second_try=is_second_try,
        call_id=call_id,
        endpoint=endpoint,
        request=answer.request,
        answer=answer.transcript,
        usd=answer.usd,
    )


def _in_parallel(ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    if not items:
        return []
    with ThreadPoolExecutor(len(items), thread_name_prefix="llm") as pool:
        return list(pool.map(ask, items))
