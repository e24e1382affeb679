"""NullAgent: proposes the candidates of a task by their number, each grown from one before it."""

import random

from benchmarks.null_device.request import AGENT
from candidates.agent import Attempt, Budget, Proposals
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.task import KernelTask

_LINE = "    accumulator[{0}] += load(panel + depth * {1}) * splat(input[{2}]);\n"
_PARENTS_AMONG = 40


class NullAgent:
    """Never stops by itself: the run's attempts end its searches."""

    name = AGENT

    def __init__(self, *, generation: int, source_bytes: int) -> None:
        """`generation`: candidates of one proposal."""
        self._generation, self._source_bytes = generation, source_bytes

    def propose(self, task: KernelTask, attempts: tuple[Attempt, ...], budget: Budget) -> Proposals:
        known = [attempt.proposal.candidate.id for attempt in attempts[-_PARENTS_AMONG:]]
        numbers = range(len(attempts), len(attempts) + min(self._generation, budget.attempts))
        return Proposals(proposals=tuple(self._proposal(task, number, known) for number in numbers))

    def _proposal(self, task: KernelTask, number: int, known: list[str]) -> Proposal:
        chance = random.Random(f"{task.id} {number}")
        lines, length = [f"// {task.op}: variant {number} of {task.id}\n"], 0
        while length < self._source_bytes:
            lines.append(_LINE.format(chance.randrange(16), chance.randrange(4096), chance.randrange(4096)))
            length += len(lines[-1])
        return Proposal(
            candidate=Candidate(
                language=LanguageName.CPP, source="".join(lines), launch_parameters={"variant": number}
            ),
            agent=AGENT,
            parents=(chance.choice(known),) if known else (),
            note="Smaller row tiles, so that both panels stay in cache.",
            round_id=f"variant-{number}",
        )
