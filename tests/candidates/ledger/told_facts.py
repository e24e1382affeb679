"""Facts that somebody outside is told of, without the runs that make them."""

from candidates.candidate import Candidate, LanguageName
from candidates.ledger.approvals import Approvals
from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.measurement import Decision
from candidates.promotion import UNCHANGED, EndToEnd, Gate, PromotionDecision, Retraction
from candidates.run import BuildRecord, RunRequest, Stage
from candidates.serving_build.builds import Approval, ApprovalAction
from tests.candidates.serving_build.nights import FIGURES
from tests.candidates.serving_build.tiny_tasks import make_measurement, make_task, taken, tensor

TASK = make_task("Twice", "def reference(x):\n    return x + x\n", (taken(tensor("x", 8)),), (tensor("y", 8),))
KERNEL = Candidate(language=LanguageName.CPP, source="void kernel() {}")
MEASUREMENT = make_measurement(TASK, {"batch=1,tokens=1": Decision.WIN})


def promote(ledger: Ledger, run_id: str, *, gate: str = "won", passed: bool = True, speed: float = 1.2) -> None:
    """A run whose build has one kernel, which passed `gate` or not; `speed` 1.2 is enough for the build's gates."""
    ledger.open_run(RunRequest(traces=(run_id,), trace_digest="0", model="tiny"), run_id)
    ledger.put_task(TASK)
    ledger.put_candidate(KERNEL)
    ledger.put_measurement(run_id, TASK.id, KERNEL.id, MEASUREMENT)
    gates = (Gate(name=gate, figure=1.0, bound="it did", passed=passed),)
    ledger.put_promotion(run_id, PromotionDecision(task_id=TASK.id, candidate_id=KERNEL.id, gates=gates))
    ledger.put_build(run_id, BuildRecord(id=f"build-of-{run_id}", path="/b", task_ids=(TASK.id,)))
    figures = FIGURES | {"build_id": f"build-of-{run_id}", "hits": {KERNEL.id: 1}, "speedup_interval": (speed, 1.4)}
    ledger.put_stage(run_id, Stage.END_TO_END, EndToEnd.model_validate(figures))


def carry_on(ledger: Ledger, run_id: str) -> None:
    promote(ledger, run_id, gate=UNCHANGED)


def move(
    ledger: Ledger, action: ApprovalAction, build: str | None, previous: str | None, at: str = "2026-01-01"
) -> None:
    approval = Approval(action=action, build_id=build, previous=previous, by="ann", at=at)
    Approvals(ledger).put(approval)


def retract(ledger: Ledger, candidate_id: str = KERNEL.id) -> None:
    Retractions(ledger).put(Retraction(candidate_id=candidate_id, reason="reads past the end", by="bob"))
