"""Triton kernels of the corpus: honest ones are let in, wrong and hostile ones kept out, and by what."""

from collections.abc import Iterator

import pytest
from corpus import NEEDS_DEVICE, TRITON, Kernel, each, load_attacks, load_honest
from court import Outcome

from candidates.verdict import Accepted, NeedsDevice, Rejected

pytest.importorskip("triton", reason="Triton is not installed")

from triton_court import TritonCourt

ATTACKS, HONEST = load_attacks(TRITON), load_honest(TRITON)


@pytest.fixture(scope="module")
def court(request: pytest.FixtureRequest) -> Iterator[TritonCourt]:
    parameters = [item.callspec.params.get("kernel") for item in request.session.items if hasattr(item, "callspec")]
    court = TritonCourt([kernel for kernel in parameters if kernel in HONEST or kernel in ATTACKS])
    yield court
    court.close()


@each(HONEST, quick_one_in=4)
def test_accepts_honest_triton(court: TritonCourt, kernel: Kernel) -> None:
    outcome = court.hear(kernel)
    assert isinstance(outcome, NeedsDevice if NEEDS_DEVICE in kernel.expected else Accepted), outcome


@each(ATTACKS, quick_one_in=3)
def test_rejects_wrong_triton(court: TritonCourt, kernel: Kernel) -> None:
    outcome = court.hear(kernel)
    assert isinstance(outcome, Rejected), outcome
    assert outcome.reason in kernel.expected, outcome


@pytest.mark.slow
@each(ATTACKS)
def test_runtime_rejects_triton(court: TritonCourt, kernel: Kernel) -> None:
    """What the judge says without rules for the source is what the kernel's header says that it does."""
    outcome = court.hear_judge(kernel)
    assert said_by(outcome) in kernel.alone, outcome


def said_by(outcome: Outcome) -> str:
    return outcome.reason.value if isinstance(outcome, Rejected) else outcome.outcome
