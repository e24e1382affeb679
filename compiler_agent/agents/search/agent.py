"""SearchAgent: writes a task's kernels from its graph and searches their schedules; needs no key.

The legal schedules are enumerated first. What was best for tasks like this one is tried, and a few that usually decide,
then what a random forest finds likeliest (`forest_sampler`); never what compiles to code that was tried already, nor
what could not win even at the ceilings of the device (`roofline`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import TrialState

from candidates.agent import FLOOR_SHARE_TO_STOP, Attempt, Budget, Proposals, Stop, fastest_first, stop_for_device
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.device import DeviceCeilings
from candidates.language import language_for
from candidates.record import Record
from candidates.task import KernelTask
from compiler_agent.agents.duplicates import key_of
from compiler_agent.agents.search.emitters import EMITTERS, Emitter
from compiler_agent.agents.search.forest_sampler import ForestSampler, Point
from compiler_agent.agents.search.program import NoProgram, Program
from compiler_agent.agents.search.roofline import most_speedup
from compiler_agent.agents.search.space import Space

GENERATION_SIZE = 6
PATIENCE_GENERATIONS = 4
LEAST_IMPROVEMENT = 1.01
MOST_SCHEDULES = 100_000
MOST_DRAWS = 400
"""For one generation: where so many compile to what was tried, nothing else is left."""
MOST_PAST_WINNERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What is searched for one task."""

    program: Program
    emitter: Emitter[Any]
    space: Space[Any]
    points: tuple[Point, ...]
    """Every legal schedule, by the fields in which they differ."""

    def emit(self, point: Point) -> tuple[Candidate, str]:
        """And a note of what it is."""
        schedule = self.space.schedule(**point)
        return self.emitter.emit(self.program, schedule), _note(schedule)

    def point_of(self, candidate: Candidate) -> Point:
        """What its launch parameters do not tell is as in the schedule to begin with."""
        parameters = candidate.launch_parameters
        point: dict[str, Any] = {field: parameters.get(field, each[0]) for field, each in self.space.varying.items()}
        return point


class SearchAgent:
    """Stateless up to a memo of spaces: what was tried is read from `attempts`."""

    name = "search"

    def __init__(
        self,
        *,
        past_winners: Callable[[KernelTask], Sequence[Attempt]] = lambda task: (),
        ceilings: Callable[[KernelTask, int], DeviceCeilings | None] = lambda task, threads: None,
        seed: int = 0,
        generation_size: int = GENERATION_SIZE,
    ) -> None:
        """`past_winners`: the best kernels of earlier searches for tasks like this one. `ceilings` of the task's device
        with so many threads; None: they are not known, and nothing is ruled out."""
        self._past_winners = past_winners
        self._ceilings = ceilings
        self._seed = seed
        self._generation_size = generation_size
        self._grounds: dict[str, _Ground | NoProgram] = {}

    def propose(self, task: KernelTask, attempts: tuple[Attempt, ...], budget: Budget) -> Proposals | Stop:
        """The next generation; the first is made of past winners and of defaults."""
        ground = self._ground(task)
        if isinstance(ground, NoProgram):
            return Stop(reason="no_program", message=f"{task.op}: {ground.reason}")
        if budget.attempts == 0 or budget.seconds <= 0:
            return Stop(reason="budget", message=f"{budget.attempts} attempts and {budget.seconds:.0f} s left")
        own = [attempt for attempt in attempts if attempt.proposal.agent == self.name]
        stop = stop_for_device(own) or _reason_to_stop(task, own, self._generation_size)
        if stop is not None:
            return stop
        pending = [proposal.candidate for proposal in budget.pending]
        if own or pending:
            hopeless = self._hopeless(task, ground, own)
            drawn = _draw(ground, own, pending, hopeless, self._seed + len(own) + len(pending))
        else:
            hopeless, drawn = frozenset[int](), self._first(task, ground, budget)
        best = _best(own)
        parents = () if best is None else (best.proposal.candidate.id,)
        seen = {key_of(each) for each in (*(attempt.proposal.candidate for attempt in attempts), *pending)}
        proposals: list[Proposal] = []
        for candidate, note in drawn:
            if (mark := key_of(candidate)) in seen:
                continue
            seen.add(mark)
            proposals.append(Proposal(candidate=candidate, agent=self.name, parents=parents, note=note))
            if len(proposals) == min(self._generation_size, budget.attempts):
                break
        if not proposals:
            return Stop(
                reason="space_exhausted",
                message=f"of {len(ground.points)} schedules of {task.op} {len(own) + len(pending)} were tried, "
                f"{len(hopeless)} cannot win at the ceilings of the device, the others compile to what was tried",
            )
        # Where kernels wait for a device, the first of them say so.
        is_measured = language_for(task) is LanguageName.CPP or best is not None
        return Proposals(proposals=tuple(proposals), may_go_ahead=is_measured)

    def _ground(self, task: KernelTask) -> _Ground | NoProgram:
        if task.id not in self._grounds:
            emitter = EMITTERS[language_for(task)]
            program = emitter.write_program(task)
            self._grounds[task.id] = program if isinstance(program, NoProgram) else _survey(program, emitter)
        return self._grounds[task.id]

    def _first(self, task: KernelTask, ground: _Ground, budget: Budget) -> Iterator[tuple[Candidate, str]]:
        winners = self._past_winners(task) if budget.recalls_past else ()
        winners = [winner for winner in winners if winner.proposal.agent == self.name]
        for winner in winners[:MOST_PAST_WINNERS]:
            if (point := ground.point_of(winner.proposal.candidate)) in ground.points:
                candidate, note = ground.emit(point)
                yield candidate, f"{note}, the best of an earlier search"
        for schedule in ground.space.first_schedules():
            yield ground.emit(ground.space.point(schedule))

    def _hopeless(self, task: KernelTask, ground: _Ground, own: Sequence[Attempt]) -> frozenset[int]:
        """Places of points that could not beat the best even at the ceilings of the device."""
        best = _best(own)
        if best is None or best.measurement is None:
            return frozenset()
        met = best.measurement
        ceilings = self._ceilings(task, met.threads)
        if ceilings is None:
            return frozenset()
        reach: dict[int, float] = {}
        hopeless = []
        for place, point in enumerate(ground.points):
            size_bytes = ground.emitter.parameter_bytes(ground.program, ground.space.schedule(**point))
            if size_bytes not in reach:
                reach[size_bytes] = most_speedup(task, size_bytes, ceilings, met)
            if reach[size_bytes] < met.traffic_weighted_speedup:
                hopeless.append(place)
        return frozenset(hopeless)


def _survey(program: Program, emitter: Emitter[Any]) -> _Ground:
    space = emitter.space_of(program)
    points = tuple(space.point(schedule) for schedule in space.enumerate(MOST_SCHEDULES))
    return _Ground(program=program, emitter=emitter, space=space, points=points)


def _draw(
    ground: _Ground, own: Sequence[Attempt], pending: Sequence[Candidate], hopeless: frozenset[int], seed: int
) -> Iterator[tuple[Candidate, str]]:
    """What the sampler asks for, with the results of all that was tried; what compiles to one of those has its result.

    Rejected attempts are failed trials, and what is pending is running.
    """
    if not ground.space.varying:
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = ForestSampler(ground.points, seed, ruled_out=hopeless)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    results = {key_of(attempt.proposal.candidate): attempt.speedup for attempt in own}
    for candidate in (*(attempt.proposal.candidate for attempt in own), *pending):
        point = ground.point_of(candidate)
        if not sampler.has(point):
            continue  # written by an earlier version of this agent, whose space was another
        is_known = (mark := key_of(candidate)) in results
        state, value = _ending(results[mark]) if is_known else (TrialState.RUNNING, None)
        study.add_trial(
            optuna.trial.create_trial(params=dict(point), distributions=sampler.distributions, value=value, state=state)
        )
    for _ in range(min(MOST_DRAWS, sampler.count_left(study))):
        trial = study.ask(sampler.distributions)
        candidate, note = ground.emit(trial.params)
        mark = key_of(candidate)
        if mark in results:
            state, value = _ending(results[mark])
            study.tell(trial, value, state)
        else:
            yield candidate, note


def _ending(speedup: float | None) -> tuple[TrialState, float | None]:
    return (TrialState.FAIL, None) if speedup is None else (TrialState.COMPLETE, speedup)


def naive_kernel(task: KernelTask, language: LanguageName | None = None) -> Candidate | NoProgram:
    """The plainest correct kernel, for a person to start from; `language` None: the one that fits the task."""
    language = language or language_for(task)
    if language not in EMITTERS:
        return NoProgram(f"no kernel is written in {language.value}")
    program = EMITTERS[language].write_program(task)
    return program if isinstance(program, NoProgram) else EMITTERS[language].emit_naive(program)


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


def _best(attempts: Sequence[Attempt]) -> Attempt | None:
    return next(iter(fastest_first(attempts)), None)


def _note(schedule: Record) -> str:
    default = type(schedule)().model_dump()
    changes = [f"{field}={value}" for field, value in schedule.model_dump().items() if value != default[field]]
    return "default schedule" if not changes else f"schedule with {', '.join(changes)}"
