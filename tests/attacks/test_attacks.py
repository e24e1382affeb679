"""Every hostile or wrong kernel of the corpus is kept out for its own reason, every honest one is let in."""

from corpus import NO_WIN, Kernel, Stage, each, load_attacks, load_honest
from court import Court

from candidates.judge.defences import ALL_DEFENCES
from candidates.measurement import Decision, Measurement
from candidates.verdict import Accepted, Rejected

# Races last: they are not to be disturbed by builds.
ATTACKS = sorted(load_attacks(), key=lambda kernel: kernel.stage)
HONEST = load_honest()
SCREENED = {"rmsnorm_two_pass", "linear_packed", "running_mean_in_place"}


@each(ATTACKS, quick_one_in=5)
def test_rejects_attack(court: Court, kernel: Kernel) -> None:
    outcome = court.hear(kernel)
    if isinstance(outcome, Measurement):
        assert NO_WIN in kernel.expected, f"it was raced to the end: {outcome}"
        assert outcome.decision is not Decision.WIN, outcome
    else:
        assert isinstance(outcome, Rejected), outcome
        assert outcome.reason in kernel.expected, outcome


@each(HONEST)
def test_accepts_honest(court: Court, kernel: Kernel) -> None:
    outcome = court.hear(kernel)
    assert isinstance(outcome, Accepted), outcome


@each([kernel for kernel in HONEST if kernel.name in SCREENED])
def test_screens_honest(court: Court, kernel: Kernel) -> None:
    measured = court.screen(kernel)
    assert isinstance(measured, Measurement), measured


@each([kernel for kernel in ATTACKS if kernel.defence], quick_one_in=4)
def test_defence_bites(court: Court, kernel: Kernel) -> None:
    """Exactly the named defence keeps the kernel out: without it nothing else does."""
    assert kernel.defence is not None
    outcome = court.hear(kernel, ALL_DEFENCES - {kernel.defence})
    if kernel.stage is Stage.RACE:
        assert isinstance(outcome, Measurement), outcome
        assert outcome.decision is Decision.WIN, outcome
    else:
        assert isinstance(outcome, Accepted), outcome


def test_every_defence_is_shown_to_bite() -> None:
    assert {kernel.defence for kernel in ATTACKS if kernel.defence} == set(ALL_DEFENCES)
