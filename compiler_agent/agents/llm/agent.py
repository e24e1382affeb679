"""LlmAgent: language models write a task's kernels; what was tried and what came of it is read from the attempts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from candidates.agent import Attempt, Budget, Proposals, Stop
from candidates.candidate import Proposal
from candidates.language import language_for
from candidates.spending import BudgetStop
from candidates.task import KernelTask
from candidates.transcript import Transcript, Turn
from compiler_agent.agents.duplicates import key_of
from compiler_agent.agents.llm.collaborators import Collaborators, Options, PaidModel
from compiler_agent.agents.llm.diagnosis import Fix, read_fixes
from compiler_agent.agents.llm.history import AGENT, History, read_history
from compiler_agent.agents.llm.model_choice import choose_models
from compiler_agent.agents.llm.plan import Draft, Improve, Order, parents_of, plan_round, purpose_of
from compiler_agent.agents.llm.prompts import Context, ask_for_diagnosis, ask_for_kernel, write_prefix
from compiler_agent.agents.llm.quoting import in_one_line
from compiler_agent.agents.llm.replies import MOST_NOTE_CHARACTERS
from compiler_agent.agents.llm.round_calls import (
    Failed,
    RoundCalls,
    Sample,
    SampleEnd,
    Unusable,
    Written,
)

_LEAST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Advice:
    """What is known of a parent: the compiler's report, and the fixes of its diagnosis with the call that gave them."""

    report: str
    fixes: Sequence[Fix] = ()
    turn: Turn | None = None

    def fix(self, branch: int) -> Fix | None:
        return self.fixes[branch] if branch < len(self.fixes) else None


class LlmAgent:
    """Stateless up to opened models. A round that is asked for again, with the same attempts before it, is the same."""

    name = AGENT

    def __init__(self, collaborators: Collaborators, options: Options | None = None) -> None:
        self._collaborators, self._options = collaborators, options or Options()
        self._models: dict[str, PaidModel] = {}

    def propose(self, task: KernelTask, attempts: tuple[Attempt, ...], budget: Budget) -> Proposals | Stop:
        """Calls the models named in the budget, paid from its accounts. Raises ValueError without a round's name or
        accounts, and what opening a model raises (UserFault: no key, no price)."""
        history = read_history(attempts, budget.round_id)
        planned = plan_round(task, history, budget, self._options)
        if isinstance(planned, Stop):
            return planned
        if not budget.round_id or not budget.accounts:
            raise ValueError(f"the llm agent needs a round's name and accounts to pay from, not {budget}")
        shows_winners = budget.recalls_past and any(isinstance(order, Draft) for order in planned)
        tried = {attempt.proposal.candidate.id for attempt in attempts}
        context = Context(
            task=task,
            history=history,
            device_facts=self._collaborators.device_facts(task),
            winners=tuple(
                winner
                for winner in (self._collaborators.past_winners(task) if shows_winners else ())
                if winner.proposal.candidate.id not in tried
            ),
            lessons=self._collaborators.memory(task) if budget.recalls_past else (),
        )
        chosen = choose_models(budget.models, history, len(planned))
        calls = self._open_calls(task, history, budget)
        advice = self._advise(calls, context, planned, chosen)
        samples = [
            Sample(
                place=place,
                purpose=purpose_of(order),
                endpoint=endpoint,
                question=ask_for_kernel(context, order, _fix(order, advice), _report(order, advice)),
            )
            for place, (order, endpoint) in enumerate(zip(planned, chosen, strict=True))
        ]
        ends = calls.write(samples)
        written = _first_of_each(planned, ends)
        if not written:
            return _why_nothing(task, ends)
        return Proposals(proposals=self._propose(budget.round_id, written, advice))

    def _open_calls(self, task: KernelTask, history: History, budget: Budget) -> RoundCalls:
        for name in budget.models:
            if name not in self._models:
                self._models[name] = self._collaborators.open_model(name)
        language = self._collaborators.languages[self._options.language or language_for(task)]
        return RoundCalls(
            models={name: self._models[name] for name in budget.models},
            language=language,
            prefix=write_prefix(task, language),
            round_id=budget.round_id,
            accounts=budget.accounts,
            tried=frozenset(key_of(each.proposal.candidate) for each in history.attempts),
            max_output_tokens=self._options.max_output_tokens,
            max_diagnosis_tokens=self._options.max_diagnosis_tokens,
            timeout_s=min(self._options.timeout_s, max(_LEAST_TIMEOUT_S, budget.seconds)),
            effort=self._options.effort,
        )

    def _advise(
        self, calls: RoundCalls, context: Context, orders: Sequence[Order], chosen: Sequence[str]
    ) -> dict[str, _Advice]:
        """By id of the candidate that is to be improved."""
        parents: dict[str, tuple[Attempt, str]] = {}
        for order, endpoint in zip(orders, chosen, strict=True):
            if isinstance(order, Improve):
                parents.setdefault(order.parent.proposal.candidate.id, (order.parent, endpoint))
        reports = {
            id_: self._collaborators.compiler_report(context.task, parent.proposal.candidate)
            for id_, (parent, _) in parents.items()
        }
        questions = [
            Sample(
                place=place,
                purpose="diagnosis",
                endpoint=endpoint,
                question=ask_for_diagnosis(context, parent, reports[id_]),
            )
            for place, (id_, (parent, endpoint)) in enumerate(parents.items())
        ]
        return {
            id_: _Advice(report=reports[id_])
            if diagnosed is None
            else _Advice(report=reports[id_], fixes=read_fixes(diagnosed.reply), turn=diagnosed.turn)
            for id_, diagnosed in zip(parents, calls.diagnose(questions), strict=True)
        }

    def _propose(
        self, round_id: str, written: Sequence[tuple[Order, Written]], advice: Mapping[str, _Advice]
    ) -> tuple[Proposal, ...]:
        used = [_diagnosis(order, advice) for order, _ in written]
        proposals = []
        for (order, end), diagnosis in zip(written, used, strict=True):
            turns = end.turns if diagnosis is None else (diagnosis, *end.turns)
            usd = sum(turn.usd or 0.0 for turn in end.turns)
            if diagnosis is not None:
                usd += (diagnosis.usd or 0.0) / used.count(diagnosis)
            transcript = Transcript(turns=turns).model_dump_json().encode()
            proposals.append(
                Proposal(
                    candidate=end.kernel.candidate,
                    agent=self.name,
                    model=end.endpoint,
                    parents=parents_of(order),
                    note=_note(end.kernel.note, _fix(order, advice)),
                    round_id=round_id,
                    transcript=self._collaborators.store(transcript),
                    cost_usd=usd,
                )
            )
        return tuple(proposals)


def _first_of_each(orders: Sequence[Order], ends: Sequence[SampleEnd]) -> list[tuple[Order, Written]]:
    """What was written, in the order of the samples, without kernels that an earlier sample has too."""
    seen: set[str] = set()
    written = []
    for order, end in zip(orders, ends, strict=True):
        if isinstance(end, Written) and (key := key_of(end.kernel.candidate)) not in seen:
            seen.add(key)
            written.append((order, end))
    return written


def _why_nothing(task: KernelTask, ends: Sequence[SampleEnd]) -> Stop:
    for end in ends:
        if isinstance(end, BudgetStop):
            return Stop(reason="budget", message=str(end))
    failed = {end.endpoint: end.message for end in ends if isinstance(end, Failed)}
    if len([end for end in ends if isinstance(end, Failed)]) == len(ends):
        words = "; ".join(f"{endpoint}: {message}" for endpoint, message in failed.items())
        return Stop(reason="model_unavailable", message=words)
    unusable = [end for end in ends if isinstance(end, Unusable)]
    problems = "; ".join(sorted({end.problem for end in unusable}))
    if any(end.is_repetition for end in unusable):
        return Stop(reason="no_progress", message=f"no new kernel for {task.op}, asked twice: {problems}")
    return Stop(reason="no_kernel", message=f"no kernel for {task.op} in any answer, asked twice: {problems}")


def _fix(order: Order, advice: Mapping[str, _Advice]) -> Fix | None:
    return advice[order.parent.proposal.candidate.id].fix(order.branch) if isinstance(order, Improve) else None


def _report(order: Order, advice: Mapping[str, _Advice]) -> str:
    return advice[order.parent.proposal.candidate.id].report if isinstance(order, Improve) else ""


def _diagnosis(order: Order, advice: Mapping[str, _Advice]) -> Turn | None:
    return advice[order.parent.proposal.candidate.id].turn if isinstance(order, Improve) else None


def _note(change: str, fix: Fix | None) -> str:
    cause = "" if fix is None else f" (because: {in_one_line(fix.cause, MOST_NOTE_CHARACTERS)})"
    return in_one_line(f"{change}{cause}", MOST_NOTE_CHARACTERS)
