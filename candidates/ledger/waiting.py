"""waiting_for_device: candidates against which nothing speaks but that no device of their task's kind has run them."""

from typing import NamedTuple

from candidates.candidate import Candidate
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.ledger import Ledger
from candidates.task import KernelTask
from candidates.verdict import Verdict, waits_for_device


class Waiting(NamedTuple):
    task: KernelTask
    candidate: Candidate
    verdict: Verdict


def waiting_for_device(ledger: Ledger) -> tuple[Waiting, ...]:
    """By the latest word on each candidate; newest tasks first."""
    return tuple(
        Waiting(task, attempt.proposal.candidate, attempt.verdict)
        for task in ledger.tasks()
        for attempt, *_ in Evaluations(ledger).of(task.id)
        if waits_for_device(attempt.verdict)
    )
