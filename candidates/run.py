"""Records of a run: what was asked, how far it is, how each search ended, what came out."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from candidates.hot_ops import HotOp
from candidates.measurement import Baseline, Interval
from candidates.promotion import EndToEnd, Gate, have_passed
from candidates.record import Record, digest_of
from candidates.serving_build.manifest import InstallationSite
from candidates.spending import BudgetStop, ModelBudget
from candidates.task import Architecture, SiteLevel
from traces.replay.report import ReplayReport
from traces.replay.settings import EngineName
from traces.replay.step import EngineStep


class Request(Record):
    """Everything that a run depends on; equal requests have equal digests."""

    @property
    def digest(self) -> str:
        return digest_of(self.model_dump(mode="json"))


class RunRequest(Request):
    """From a trace to a serving build."""

    traces: tuple[str, ...]
    """Absolute paths."""
    trace_digest: str
    trace_format: str | None = None
    workload_class: str | None = None
    model: str
    engine: EngineName = "sglang"
    utilisation: float = Field(gt=0, le=1, default=0.8)
    request_limit: int | None = Field(default=None, ge=1)
    agents: tuple[str, ...] = ("search",)
    """In their order; each op's time and attempts are shared among them."""
    models: ModelBudget = ModelBudget()
    hot_ops: int = Field(ge=1, default=8)
    """How many ops are searched."""
    workloads_per_op: int = Field(ge=1, le=16, default=4)
    search_s: float = Field(gt=0, default=110.0)
    """For all ops together, shared by recoverable time."""
    attempts_per_op: int = Field(ge=1, default=24)
    end_to_end_s: float = Field(gt=0, default=75.0)
    compile_s: float = Field(ge=0, default=85.0)
    """How long torch.compile of the whole model may take before its figure is left out."""
    architectures: tuple[Architecture, ...] = ()
    """GPUs that kernels are written for; empty: for this machine."""
    gpu: str | None = None
    """Fingerprint of the GPU that they are measured on; None: they wait for one."""
    counters: str | None = None
    """Absolute path of what a live build counted: ops that it serves are tuned for the shapes there."""
    counters_digest: str | None = None
    bfloat16_weights: bool = False
    """Kernels may round float32 matrices that no exact weight format holds."""
    approve_automatically: bool = False
    """The user's setting that lets a build which passed every gate go live without a person's command."""


class PromoteRequest(RunRequest):
    """Kernels that won elsewhere, on the model and the traffic of an earlier run."""

    base_run: str
    task_ids: tuple[str, ...] = Field(min_length=1)


class NightlyRequest(RunRequest):
    """What a schedule asks for in one night, on the traffic that was new then."""

    night_id: str


class TuneRequest(Request):
    """A kernel for one task of the ledger."""

    task_id: str
    op: str
    agents: tuple[str, ...] = ("search",)
    models: ModelBudget = ModelBudget()
    search_s: float = Field(gt=0, default=60.0)
    attempts: int = Field(ge=1, default=24)
    gpu: str | None = None
    """Fingerprint of the GPU that kernels are measured on; None: this machine, or none."""


class Stage(StrEnum):
    """Stages of a run in order."""

    DEVICE = "device"
    REPLAY = "replay"
    RANKING = "ranking"
    SEARCH = "search"
    BUILD = "build"
    END_TO_END = "end_to_end"


class Progress(Record):
    """One line of live progress."""

    stage: Stage
    op: str | None = None
    tried: int = 0
    best_speedup: float | None = None
    """Best screening speedup of this op so far, over its best baseline."""
    message: str


class RunFailure(Record):
    """Why a run did not go on; the same request afterwards goes on with it."""

    message: str
    after_progress: int = Field(ge=0)
    """Sequence of the last progress before it; 0: there was none."""


class Ranking(Record):
    """Hot ops of a run, largest recoverable share first, with the share of device time that they cover."""

    coverage: float = Field(ge=0)
    threads: int = Field(ge=1)
    eager_decode_us_by_threads: dict[int, float]
    hot_ops: tuple[HotOp, ...]
    sites: dict[str, InstallationSite]
    """Where the kernel of a task goes, by task id."""
    rank_correlation: dict[str, float]
    """Spearman correlation of the ops' shares between two workload classes, by `class~class`."""
    unmatched: dict[str, int]
    """Calls that no task serves, by reason."""


class ReplayRecord(Record):
    """What the replay of a run's traffic gave: its report, and the engine steps that stand for it."""

    report: ReplayReport
    steps: tuple[EngineStep, ...]
    span_s: float = Field(gt=0)
    covered_share: float = Field(ge=0, le=1)
    """Of the replay's time, by these steps."""


class BuildRecord(Record):
    id: str
    path: str
    task_ids: tuple[str, ...]
    """Of the kernels in it."""


LiveOutcome = Literal["stays", "beaten", "gone", "lost", "wrong"]


class LiveCheck(Record):
    """What became of one kernel of the live build in a run."""

    candidate_id: str
    op: str
    task_id: str | None
    """The run's task at its place; None: it has none."""
    outcome: LiveOutcome
    """`beaten`: the run has a faster one. `gone`: neither model nor traffic has its op. `lost`: it wins no more, or
    nobody can tell. `wrong`: the judge rejects it, or somebody took it back."""
    reason: str

    @property
    def stays(self) -> bool:
        return self.outcome == "stays"


LIVE_CHECKS = "live_checks"
"""Name of the stage that LiveChecks are recorded under."""


class LiveChecks(Record):
    build_id: str
    kernels: tuple[LiveCheck, ...]

    @property
    def wrong(self) -> tuple[LiveCheck, ...]:
        """They may not serve: a build without them is due, faster or not."""
        return tuple(kernel for kernel in self.kernels if kernel.outcome == "wrong")


BUILD_FAILURE = "build_failure"
"""Name of the stage that a BuildFailure is recorded under, in place of END_TO_END."""


class BuildFailure(Record):
    """The served model could not be run with the build."""

    message: str


class OpDecision(StrEnum):
    SHIPPED = "shipped"
    WON_NOT_SHIPPED = "won_not_shipped"
    LOST = "lost"
    UNDECIDED = "undecided"
    NO_PROGRAM = "no_program"
    REJECTED = "rejected"


SearchDecision = Literal["won", "lost", "undecided", "no_program", "rejected"]


class SearchEnd(Record):
    """How the search for one op ended. `candidate_id` is the best accepted candidate, if any was accepted."""

    task_id: str
    op: str
    decision: SearchDecision
    candidate_id: str | None
    reason: str
    stop_reason: str = ""
    """Why its agents proposed no more."""
    tried: int = Field(ge=0)


class OpReport(Record):
    op: str
    site: str
    level: SiteLevel
    candidate: str | None
    share_of_time: float
    share_by_class: dict[str, float]
    best_baseline: Baseline | None
    speedup_over_best: float | None
    interval: Interval | None
    share_of_floor: float | None
    """All workloads weighted by traffic."""
    decision: OpDecision
    reason: str
    stop_reason: str | None = None
    """Why its agents proposed no more. None: it was not searched."""


class BuildReport(Record):
    id: str
    path: str
    kernels: int
    live: bool
    gates: tuple[Gate, ...]
    """Empty: it was not measured."""

    @property
    def passed(self) -> bool:
        return have_passed(self.gates)


class RunReport(Record):
    """What `compiler-agent run --json` prints."""

    run_id: str
    replay: ReplayReport
    coverage: float
    rank_correlation: dict[str, float]
    hot_ops: tuple[OpReport, ...]
    build: BuildReport | None
    live: LiveChecks | None = None
    """Of the build that was live when the run shipped; None: there was none."""
    end_to_end: EndToEnd | None
    spend_usd: float
    """What model calls cost; those whose bill is unknown at the most that they can have cost."""
    spend_tokens: int = 0
    budget_stops: tuple[BudgetStop, ...] = ()
    """Caps of the run's account that refused a call."""
    wall_s: float

    @property
    def shipped(self) -> tuple[OpReport, ...]:
        """Ops whose kernel is in a build that passed its gates."""
        return tuple(op for op in self.hot_ops if op.decision is OpDecision.SHIPPED)


class TuneReport(Record):
    """What `compiler-agent tune --json` prints."""

    run_id: str
    task: str
    op: str
    decision: SearchDecision
    candidate: str | None
    best_baseline: Baseline | None
    """Of the workload in which traffic spends most time."""
    speedup_over_best: float | None
    """Weighted by traffic."""
    interval: Interval | None
    share_of_floor: float | None
    """All workloads weighted by traffic."""
    tried: int
    reason: str
    stop_reason: str
    spend_usd: float
    spend_tokens: int
    budget_stops: tuple[BudgetStop, ...]
    wall_s: float
