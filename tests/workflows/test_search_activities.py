"""What the activities of a search record, and what they leave to be tried again."""

import pytest
from temporalio.testing import ActivityEnvironment

from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.run import RunRequest
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload
from candidates.verdict import Evidence, Reason, Rejected
from kernel_sandbox.sandbox import SandboxError
from workflows.activities.search import DeviceSearchActivities
from workflows.payloads import Generation

TASK = KernelTask(
    op="Double",
    site="model.layers.*.double",
    level="leaf",
    reference="def reference(x):\n    return x + x\n",
    inputs=(InputSpec(name="x", element_type="float32", shape=("rows", 8), dim_order=(0, 1), role="activation"),),
    outputs=(TensorSpec(name="out0", element_type="float32", shape=("rows", 8), dim_order=(0, 1)),),
    axes=("rows",),
    workloads=(Workload(axes={"rows": 4}, calls_per_hour=10.0),),
    error_bound=ErrorBound(scaled_error=0.0),
    device_id="cpu-0",
)


class ScriptedJudge:
    """Gives or raises the next of its answers."""

    def __init__(self, answers):
        self._answers = list(answers)

    def judge(self, task, candidate, artifact, seed=None):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_judgement_whose_machinery_fails_is_no_attempt_and_is_made_again(tmp_path):
    ledger, blobs = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}"), BlobStore(tmp_path / "blobs")
    ledger.open_run(RunRequest(traces=("/t.jsonl",), trace_digest="0" * 64, model="m"), "run")
    ledger.put_task(TASK)
    proposals = []
    for name in ("first", "second"):
        candidate = Candidate(language=LanguageName.CPP, source=f"void {name}() {{}}")
        ledger.put_candidate(candidate)
        ledger.put_artifact(TASK.id, candidate.id, blobs.put(b"artifact"))
        proposals.append(Proposal(candidate=candidate, agent="search"))
    generation = Generation(
        run_id="run",
        task_id=TASK.id,
        proposals=tuple(blobs.put(proposal.model_dump_json().encode()) for proposal in proposals),
        wall_s=0.0,
    )
    rejected = Rejected(reason=Reason.CRASHED, workload=None, evidence=Evidence(message="it crashed"), seed=1)
    judge = ScriptedJudge([rejected, SandboxError("somebody killed it"), rejected])
    activities = DeviceSearchActivities(ledger, blobs, judge, sanitizers=None, benchmark=None)

    with pytest.raises(SandboxError):
        ActivityEnvironment().run(activities.evaluate_generation, generation)
    assert [attempt.proposal for attempt in ledger.attempts("run", TASK.id)] == proposals[:1]

    assert ActivityEnvironment().run(activities.evaluate_generation, generation).tried == 2
    assert [attempt.proposal for attempt in ledger.attempts("run", TASK.id)] == proposals
