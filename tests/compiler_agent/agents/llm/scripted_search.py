"""A search without a network: models that answer by script, and the loop from proposals to attempts."""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence

from candidates.agent import Attempt, Budget, Proposals, Stop
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.languages.cpp import CppLanguage
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.spending import BudgetStop, Usage
from candidates.task import (
    ElementType,
    ErrorBound,
    InputRole,
    InputSpec,
    KernelTask,
    SiteLevel,
    TensorSpec,
    Workload,
)
from candidates.verdict import Accepted, Evidence, EvidenceKind, Reason, Rejected
from compiler_agent.agents.llm.agent import LlmAgent
from compiler_agent.agents.llm.collaborators import Collaborators, Options
from compiler_agent.models.completion import Completion, ModelRequest, Outcome, Reply
from compiler_agent.models.metered import PaidCompletion

RUN = "run-7"

TASK = KernelTask(
    op="double",
    site="tests.double",
    level=SiteLevel.LEAF,
    reference="def reference(x):\n    return x * 2\n",
    inputs=(
        InputSpec(
            name="x",
            element_type=ElementType.FLOAT32,
            shape=("rows", 16),
            dim_order=(0, 1),
            role=InputRole.ACTIVATION,
        ),
    ),
    outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 16), dim_order=(0, 1)),),
    axes=("rows",),
    workloads=(
        Workload(axes={"rows": 4}, calls_per_hour=30.0),
        Workload(axes={"rows": 9}, calls_per_hour=10.0),
        Workload(axes={"rows": 4177}, calls_per_hour=1.0, is_hidden=True),
    ),
    error_bound=ErrorBound(scaled_error=0.0),
    device_id="cpu-test",
)

Answer = Outcome | BudgetStop | Exception


class Script:
    """A PaidModel. `answer` gets the call's id within the run (`round-0/sample-1`) and its request."""

    def __init__(self, answer: Callable[[str, ModelRequest], str | Answer], usd: float | None = 0.01) -> None:
        self._answer, self._usd = answer, usd
        self._lock = threading.Lock()
        self.requests: dict[str, ModelRequest] = {}
        """By id within the run."""
        self._stored: dict[str, Completion] = {}
        self.accounts: set[tuple[str, ...]] = set()

    def complete(self, call_id: str, request: ModelRequest, accounts: tuple[str, ...]) -> PaidCompletion | BudgetStop:
        name = "/".join(call_id.split("/")[-2:])
        with self._lock:
            was_stored = call_id in self._stored
            if not was_stored:
                self.requests[name] = request
                self.accounts.add(accounts)
                answer = self._answer(name, request)
                if isinstance(answer, str):
                    answer = Reply(text=answer)
                if isinstance(answer, BudgetStop):
                    return answer
                if isinstance(answer, Exception):
                    raise answer
                usage = Usage(input_tokens=100, output_tokens=10)
                self._stored[call_id] = Completion(outcome=answer, usage=usage, model="scripted", seconds=0.1)
            completion = self._stored[call_id]
        return PaidCompletion(
            completion=completion,
            usd=self._usd,
            is_cost_known=True,
            was_stored=was_stored,
            request=digest(request.model_dump_json().encode()),
            transcript=digest(completion.model_dump_json().encode()),
        )

    @property
    def asked(self) -> list[str]:
        return sorted(self.requests)


class Store:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def __call__(self, content: bytes) -> str:
        self.blobs[digest(content)] = content
        return digest(content)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def by_name(answers: Mapping[str, str | Answer], otherwise: str | Answer = "nothing to say") -> Script:
    return Script(lambda name, _: answers.get(name, otherwise))


def collaborators(
    models: Mapping[str, Script],
    *,
    store: Store | None = None,
    report: str = "",
    winners: tuple[Attempt, ...] = (),
    lessons: tuple[str, ...] = (),
) -> Collaborators:
    return Collaborators(
        open_model=lambda name: models[name],
        languages={LanguageName.CPP: CppLanguage()},
        store=store or Store(),
        device_facts=lambda task: "a device of tests with 32 KiB of first-level cache",
        compiler_report=lambda task, candidate: report,
        past_winners=lambda task: winners,
        memory=lambda task: lessons,
    )


def llm(*scripts: Script, options: Options | None = None, **known: object) -> LlmAgent:
    """Its models are called `m0`, `m1`, …"""
    models = {f"m{place}": script for place, script in enumerate(scripts)}
    return LlmAgent(collaborators(models, **known), options)


def budget(
    round_number: int = 0, *, attempts: int = 100, seconds: float = 1e5, models: Sequence[str] = ("m0",)
) -> Budget:
    return Budget(
        seconds=seconds,
        attempts=attempts,
        round_id=f"{RUN}/3f2a/llm/round-{round_number}",
        models=tuple(models),
        accounts=(RUN, f"{RUN}/3f2a"),
    )


def source(body: str, *, header: str = "") -> str:
    """C++ for TASK."""
    signature = 'extern "C" void kernel(const float* x, float* y, int64_t rows)'
    return f"{header}#include <cstdint>\n{signature} {{ {body} }}\n"


DOUBLES = "for (int64_t i = 0; i < rows * 16; ++i) y[i] = x[i] * 2;"


def right(number: int) -> str:
    """A right kernel, another for each number."""
    return source(f"const int which = {number}; (void)which; {DOUBLES}")


def says(code: str, change: str = "less traffic", tag: str = "cpp") -> str:
    return f"I thought about it.\nChange: {change}\n\n```{tag}\n{code}```\n"


def candidate(code: str) -> Candidate:
    return CppLanguage().parse_source(code, "kernel")


def proposal(code: str, *, agent: str = "llm", **fields: object) -> Proposal:
    return Proposal.model_validate({"candidate": candidate(code), "agent": agent, **fields})


def measured(made: Proposal, speedup: float, *, share_of_floor: float = 0.5, task: KernelTask = TASK) -> Attempt:
    """Also on hidden workloads, which a benchmark does not measure."""
    workloads = tuple(
        WorkloadMeasurement(
            workload=workload.name,
            candidate_us=12.0 / speedup,
            kernel_only_us=10.0 / speedup,
            baselines_us={Baseline.EAGER: 12.0},
            best_baseline=Baseline.EAGER,
            speedup_over_best=speedup,
            interval=Interval(speedup, speedup),
            pairs=5,
            share_of_floor=share_of_floor,
            parameters_are_cold=True,
            decision=Decision.WIN,
        )
        for workload in task.workloads
    )
    measurement = Measurement(
        stage=Stage.SCREEN,
        device_id=task.device_id,
        threads=1,
        workloads=workloads,
        traffic_weighted_speedup=speedup,
        interval=Interval(speedup, speedup),
        decision=Decision.WIN,
        wall_s=1.0,
    )
    accepted = Accepted(evidence=EvidenceKind.NATIVE, seed=918273, calls_checked=10, worst_error_in_bounds=0.5)
    return Attempt(proposal=made, verdict=accepted, measurement=measurement)


def rejected(
    made: Proposal,
    reason: Reason = Reason.WRONG_VALUES,
    *,
    workload: str | None = "rows=4",
    evidence: Evidence | None = None,
) -> Attempt:
    said = evidence or Evidence(message=f"{reason.value} it is")
    return Attempt(proposal=made, verdict=Rejected(reason=reason, workload=workload, evidence=said, seed=918273))


def search(
    agent: LlmAgent,
    evaluate: Callable[[Proposal], Attempt],
    *,
    attempts: int = 100,
    models: Sequence[str] = ("m0",),
    before: Sequence[Attempt] = (),
    task: KernelTask = TASK,
) -> tuple[list[Attempt], Stop]:
    """Rounds until the agent stops."""
    tried = list(before)
    most = len(tried) + attempts
    for number in range(100):
        reply = agent.propose(task, tuple(tried), budget(number, attempts=most - len(tried), models=models))
        if isinstance(reply, Stop):
            return tried, reply
        assert isinstance(reply, Proposals)
        assert len(tried) + len(reply.proposals) <= most
        tried += map(evaluate, reply.proposals)
    raise AssertionError("a hundred rounds, and no end")
