"""History: what the attempts at an op say of this agent's search so far: its rounds, their gains, lines of repair."""

from collections.abc import Sequence
from dataclasses import dataclass

from candidates.agent import Attempt, fastest_first
from candidates.task import KernelTask
from candidates.verdict import Accepted, Rejected

AGENT = "llm"
LEAST_GAIN = 1.01
"""A round whose best is below this times the best before it was flat."""

Round = tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    attempts: tuple[Attempt, ...]
    """By all agents, in their order."""
    rounds: tuple[Round, ...]
    """Attempts of the llm agent, by the call of `propose` that they came from."""

    @property
    def fastest(self) -> list[Attempt]:
        """Measured attempts of all agents, the fastest first."""
        return fastest_first(self.attempts)

    @property
    def own(self) -> tuple[Attempt, ...]:
        return tuple(attempt for each in self.rounds for attempt in each)

    @property
    def seeds(self) -> list[Attempt]:
        """Measured attempts of other agents, the fastest first."""
        return [attempt for attempt in self.fastest if attempt.proposal.agent != AGENT]

    @property
    def own_is_accepted(self) -> bool:
        return any(attempt.speedup is not None for attempt in self.own)

    def find(self, candidate_id: str) -> Attempt | None:
        return next((each for each in self.attempts if each.proposal.candidate.id == candidate_id), None)

    def speedup_before(self, attempt: Attempt) -> float | None:
        """Of the fastest of those that it was made from; None where none was measured."""
        parents = filter(None, map(self.find, attempt.proposal.parents))
        return max((parent.speedup for parent in parents if parent.speedup is not None), default=None)

    def repairs_before(self, attempt: Attempt) -> int:
        """How many rejected kernels in a row led to this one by repair."""
        count, seen = 0, {attempt.proposal.candidate.id}
        parent = self._rejected_parent(attempt)
        while parent is not None and parent.proposal.candidate.id not in seen:
            seen.add(parent.proposal.candidate.id)
            count += 1
            parent = self._rejected_parent(parent)
        return count

    def repairable(self, repairs_in_line: int) -> list[Attempt]:
        """What the last round lost to a verdict, without lines that were repaired so often already."""
        last = self.rounds[-1] if self.rounds else ()
        return [
            attempt
            for attempt in last
            if isinstance(attempt.verdict, Rejected) and self.repairs_before(attempt) < repairs_in_line
        ]

    def flat_rounds(self) -> int:
        """Rounds since the last one that gained."""
        count, best = 0, 0.0
        for each in self.rounds:
            after = max((attempt.speedup for attempt in each if attempt.speedup is not None), default=0.0)
            count = 0 if after > best * LEAST_GAIN else count + 1
            best = max(best, after)
        return count

    def accepted_share_of_last_round(self) -> float:
        last = self.rounds[-1] if self.rounds else ()
        accepted = sum(isinstance(attempt.verdict, Accepted) for attempt in last)
        return accepted / len(last) if last else 0.0

    def before_round(self, number: int) -> "History":
        """As it was when that round was asked for; other agents' attempts, which rounds do not depend on, stay."""
        return History(attempts=self.attempts, rounds=self.rounds[:number])

    def _rejected_parent(self, attempt: Attempt) -> Attempt | None:
        parents = filter(None, map(self.find, attempt.proposal.parents))
        return next((parent for parent in parents if isinstance(parent.verdict, Rejected)), None)


def read_history(attempts: Sequence[Attempt], round_id: str) -> History:
    """Without what this very round proposed before it was killed: asked again, it proposes the same."""
    past = tuple(
        attempt
        for attempt in attempts
        if not (attempt.proposal.agent == AGENT and attempt.proposal.round_id == round_id)
    )
    rounds: dict[str, list[Attempt]] = {}
    for attempt in past:
        if attempt.proposal.agent == AGENT:
            rounds.setdefault(attempt.proposal.round_id, []).append(attempt)
    return History(attempts=past, rounds=tuple(map(tuple, rounds.values())))


def share_of_floor(task: KernelTask, attempt: Attempt) -> float:
    """Of a measured attempt, over the traffic; 0 for one that was not."""
    measured = attempt.measurement
    return 0.0 if measured is None else measured.share_of_floor(task.public_calls_per_hour)
