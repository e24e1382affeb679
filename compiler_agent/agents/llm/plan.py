"""What a round asks for: first kernels, repairs, faster versions of the best, something new; or why the search ends.

A pure function of history and budget: it asks no model.
"""

from dataclasses import dataclass

from candidates.agent import FLOOR_SHARE_TO_STOP, Attempt, Budget, Stop, stop_for_device
from candidates.task import KernelTask
from candidates.transcript import Purpose
from compiler_agent.agents.llm.collaborators import Options
from compiler_agent.agents.llm.history import AGENT, History, share_of_floor

FLAT_ROUNDS_TO_STOP = 3
LEAST_ROUNDS_OF_FEEDBACK = 3
_MOSTLY = 0.5

EMPHASES = (
    "memory traffic: touch every byte once, keep what is read again in registers or the nearest cache, and repack "
    "parameters with `prepare` if another layout streams better",
    "the inner loop: whole vectors without a tail in it, several independent accumulators, no division or branch",
    "the shapes that carry the traffic: separate code paths chosen by size at entry, unrolled for the sizes listed",
    "a plain and surely correct kernel that the compiler vectorises well, with one optimisation that matters most",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A kernel from scratch; `shown` may serve as its start, or, where it is novel, must not."""

    emphasis: str
    shown: tuple[Attempt, ...]
    is_novel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    broken: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Improve:
    """A faster version of `parent`: by the fix number `branch` of its diagnosis."""

    parent: Attempt
    branch: int


Order = Draft | Repair | Improve


def purpose_of(order: Order) -> Purpose:
    match order:
        case Draft(is_novel=is_novel):
            return "novelty" if is_novel else "draft"
        case Repair():
            return "repair"
        case Improve():
            return "improve"


def parents_of(order: Order) -> tuple[str, ...]:
    """Ids of the candidates that the kernel is made from."""
    match order:
        case Draft(shown=shown, is_novel=is_novel):
            return () if is_novel else tuple(attempt.proposal.candidate.id for attempt in shown)
        case Repair(broken=attempt) | Improve(parent=attempt):
            return (attempt.proposal.candidate.id,)


def plan_round(task: KernelTask, history: History, budget: Budget, options: Options) -> tuple[Order, ...] | Stop:
    stop = _reason_to_stop(task, history, budget, options)
    if stop is not None:
        return stop
    count = samples_for(history, budget, options)
    if not history.rounds:
        return _drafts(history, count, is_novel=False)
    repairs = history.repairable(options.repairs_in_line)
    if repairs and not history.own_is_accepted:
        return tuple(Repair(broken=attempt) for attempt in repairs[:count])
    # Half of what follows a success goes on with it, whatever was lost; a single sample does.
    orders: list[Order] = [Repair(broken=attempt) for attempt in repairs[: count // 2]]
    count -= len(orders)
    parents = beam(history, options.beam_parents)
    if wants_novelty(history, options):
        orders += _drafts(history, count, is_novel=True)
    elif parents:
        orders += (
            Improve(parent=parents[place % len(parents)], branch=place // len(parents)) for place in range(count)
        )
    else:
        orders += _drafts(history, count, is_novel=False)
    return tuple(orders)


def samples_for(history: History, budget: Budget, options: Options) -> int:
    """Few enough to leave rounds in which to learn from verdicts, one fewer while most kernels are right anyway."""
    wanted = options.samples
    if history.accepted_share_of_last_round() > _MOSTLY:
        wanted -= 1
    return max(1, min(wanted, budget.attempts // LEAST_ROUNDS_OF_FEEDBACK))


def wants_novelty(history: History, options: Options) -> bool:
    """After a flat round, then after every second one; never while there is only something to repair."""
    if history.flat_rounds() % 2 == 0:
        return False
    return history.own_is_accepted or not history.repairable(options.repairs_in_line)


def beam(history: History, width: int) -> list[Attempt]:
    """The fastest of all agents; where another agent's leads, the fastest of this one is second."""
    fastest = history.fastest
    own = [attempt for attempt in fastest if attempt.proposal.agent == AGENT]
    if own and fastest[0] is not own[0]:
        others = [attempt for attempt in fastest[1:] if attempt is not own[0]]
        fastest = [fastest[0], own[0], *others]
    return fastest[:width]


def _drafts(history: History, count: int, *, is_novel: bool) -> tuple[Draft, ...]:
    shown = tuple(history.fastest[:3] if is_novel else history.seeds[:2])
    first = len(history.rounds)  # so that a second batch of drafts does not begin with the emphasis of the first
    return tuple(
        Draft(emphasis=EMPHASES[(first + place) % len(EMPHASES)], shown=shown, is_novel=is_novel)
        for place in range(count)
    )


def _reason_to_stop(task: KernelTask, history: History, budget: Budget, options: Options) -> Stop | None:
    if budget.attempts == 0 or budget.seconds <= 0:
        return Stop(reason="budget", message=f"{budget.attempts} attempts and {budget.seconds:.0f} s left")
    if not budget.models:
        return Stop(reason="model_unavailable", message="no language model was named for this run")
    if stop := stop_for_device(history.own):
        return stop
    fastest = history.fastest
    if fastest and (share := share_of_floor(task, fastest[0])) >= FLOOR_SHARE_TO_STOP:
        return Stop(reason="floor_reached", message=f"{task.op} runs at {share:.0%} of its floor")
    rounds, flat = len(history.rounds), history.flat_rounds()
    recent = range(max(0, rounds - FLAT_ROUNDS_TO_STOP), rounds)
    if flat >= FLAT_ROUNDS_TO_STOP and any(wants_novelty(history.before_round(each), options) for each in recent):
        own = [attempt.speedup for attempt in history.own if attempt.speedup is not None]
        best = f"the best is {max(own):.3f}x" if own else "none of them was accepted"
        return Stop(
            reason="no_progress",
            message=f"{flat} rounds of {task.op} gained less than 1 %, one of them in search of something new; {best}",
        )
    return None
