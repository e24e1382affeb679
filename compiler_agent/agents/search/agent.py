"""SearchAgent: writes a task's kernels from its graph and searches their schedules with Optuna; needs no key."""

from collections.abc import Iterator
from typing import Any

import optuna

from candidates.agent import FLOOR_SHARE_TO_STOP, Attempt, Budget, Proposals, Stop, fastest_first, stop_for_device
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.language import language_for
from candidates.record import Record
from candidates.task import KernelTask
from compiler_agent.agents.search.emitters import EMITTERS
from compiler_agent.agents.search.program import NoProgram, Program
from compiler_agent.agents.search.space import ScheduleT, Space

GENERATION_SIZE = 4
PATIENCE_GENERATIONS = 3
LEAST_IMPROVEMENT = 1.01
MAX_DRAWS_PER_PROPOSAL = 25


class SearchAgent:
    """Stateless up to a memo of programs: what was tried is read from `attempts`."""

    name = "search"

    def __init__(self, *, seed: int = 0, generation_size: int = GENERATION_SIZE) -> None:
        self._seed = seed
        self._generation_size = generation_size
        self._programs: dict[str, Program | NoProgram] = {}

    def propose(self, task: KernelTask, attempts: tuple[Attempt, ...], budget: Budget) -> Proposals | Stop:
        """The next generation; the first is made of defaults."""
        program = self._program(task)
        if isinstance(program, NoProgram):
            return Stop(reason="no_program", message=f"{task.op}: {program.reason}")
        if budget.attempts == 0 or budget.seconds <= 0:
            return Stop(reason="budget", message=f"{budget.attempts} attempts and {budget.seconds:.0f} s left")
        own = [attempt for attempt in attempts if attempt.proposal.agent == self.name]
        stop = stop_for_device(own) or _reason_to_stop(task, own, self._generation_size)
        if stop is not None:
            return stop
        tried = {attempt.proposal.candidate.id for attempt in attempts}
        count = min(self._generation_size, budget.attempts)
        emitter = EMITTERS[language_for(task)]
        space = emitter.space_of(program)
        schedules = self._draw(space, own) if own else space.first_schedules()
        best = _best(own)
        proposals = []
        for schedule in schedules:
            candidate = emitter.emit(program, schedule)
            if candidate.id in tried:
                continue
            tried.add(candidate.id)
            parents = () if best is None else (best.proposal.candidate.id,)
            proposals.append(Proposal(candidate=candidate, agent=self.name, parents=parents, note=_note(schedule)))
            if len(proposals) == count:
                break
        if not proposals:
            return Stop(reason="space_exhausted", message=f"all {len(tried)} schedules of {task.op} were tried")
        return Proposals(proposals=tuple(proposals))

    def _program(self, task: KernelTask) -> Program | NoProgram:
        if task.id not in self._programs:
            self._programs[task.id] = EMITTERS[language_for(task)].write_program(task)
        return self._programs[task.id]

    def _draw(self, space: Space[ScheduleT], own: list[Attempt]) -> Iterator[ScheduleT]:
        """What the sampler asks for, then every other legal schedule, so that a small space is searched whole."""
        study = _study(space, own, self._seed + len(own))
        distributions = _distributions(space)
        drawn: list[ScheduleT] = []
        for _ in range(self._generation_size * MAX_DRAWS_PER_PROPOSAL):
            trial = study.ask(distributions)
            schedule = space.schedule(**trial.params)
            if space.is_legal(schedule) and schedule not in drawn:
                drawn.append(schedule)
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
        yield from drawn
        yield from (schedule for schedule in space.schedules() if schedule not in drawn)


def naive_kernel(task: KernelTask, language: LanguageName | None = None) -> Candidate | NoProgram:
    """The plainest correct kernel, for a person to start from; `language` None: the one that fits the task."""
    language = language or language_for(task)
    if language not in EMITTERS:
        return NoProgram(f"no kernel is written in {language.value}")
    program = EMITTERS[language].write_program(task)
    return program if isinstance(program, NoProgram) else EMITTERS[language].emit_naive(program)


def _distributions(space: Space[Any]) -> dict[str, optuna.distributions.BaseDistribution]:
    return {
        field: optuna.distributions.CategoricalDistribution(values)
        for field, values in space.choices.items()
        if len(values) > 1
    }


def _study(space: Space[Any], own: list[Attempt], seed: int) -> optuna.Study:
    """A study in memory that has seen all past attempts; rejected ones as failed trials."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=4)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = _distributions(space)
    for attempt in own:
        parameters = {
            field: value
            for field, value in attempt.proposal.candidate.launch_parameters.items()
            if field in distributions
        }
        if set(parameters) != set(distributions):
            continue  # written by an earlier version of this agent, whose space was another
        speedup = attempt.speedup
        state = optuna.trial.TrialState.FAIL if speedup is None else optuna.trial.TrialState.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(params=parameters, distributions=distributions, value=speedup, state=state)
        )
    return study


def _reason_to_stop(task: KernelTask, own: list[Attempt], generation_size: int) -> Stop | None:
    best = _best(own)
    if best is not None and best.measurement is not None:
        share = best.measurement.share_of_floor(task.public_calls_per_hour)
        if share >= FLOOR_SHARE_TO_STOP:
            return Stop(reason="floor_reached", message=f"{task.op} runs at {share:.0%} of its floor")
    patience = PATIENCE_GENERATIONS * generation_size
    if len(own) >= patience + generation_size:
        before, after = _best_speedup(own[:-patience]), _best_speedup(own)
        if after <= before * LEAST_IMPROVEMENT:
            return Stop(
                reason="no_progress",
                message=f"best of {task.op} went from {before:.3f}x to {after:.3f}x over the last {patience} attempts",
            )
    return None


def _best_speedup(attempts: list[Attempt]) -> float:
    return max((attempt.speedup for attempt in attempts if attempt.speedup is not None), default=0.0)


def _best(attempts: list[Attempt]) -> Attempt | None:
    return next(iter(fastest_first(attempts)), None)


def _note(schedule: Record) -> str:
    default = type(schedule)().model_dump()
    changes = [f"{field}={value}" for field, value in schedule.model_dump().items() if value != default[field]]
    return "default schedule" if not changes else f"schedule with {', '.join(changes)}"
