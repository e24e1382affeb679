"""Tasks, attempts and measurements as past searches left them, without running anything."""

from candidates.agent import Attempt
from candidates.candidate import Candidate, Proposal
from candidates.measurement import Baseline, Interval, Measurement, WorkloadMeasurement
from candidates.run import RunRequest
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload
from candidates.verdict import Accepted, Evidence, EvidenceKind, Rejected

REQUEST = RunRequest(traces=("/t.jsonl",), trace_digest="0" * 64, model="m")
REJECTED = Rejected(reason="crashed", workload=None, evidence=Evidence(message="no"), seed=1)


def double_task(
    width: int = 8,
    rows: tuple[int, ...] = (4,),
    hidden_rows: tuple[int, ...] = (),
    device_id: str = "cpu-0",
    reference: str = "def reference(x):\n    return x + x\n",
) -> KernelTask:
    shape = {"element_type": "float32", "shape": ("rows", width), "dim_order": (0, 1)}
    return KernelTask(
        op="Double",
        site="model.layers.*.double",
        level="leaf",
        reference=reference,
        inputs=(InputSpec(name="x", role="activation", **shape),),
        outputs=(TensorSpec(name="out0", **shape),),
        axes=("rows",),
        workloads=(
            *(Workload(axes={"rows": size}, calls_per_hour=10.0) for size in rows),
            *(Workload(axes={"rows": size}, calls_per_hour=1.0, is_hidden=True) for size in hidden_rows),
        ),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id=device_id,
    )


def measurement(
    speedup: float,
    *,
    workloads: tuple[str, ...] = ("rows=4",),
    stage: str = "screen",
    width: float = 0.01,
    best_baseline: Baseline = Baseline.EAGER,
    device_id: str = "cpu-0",
    threads: int = 1,
) -> Measurement:
    """`width`: of the interval, as a share of the speedup, to each side."""
    interval = Interval(speedup * (1 - width), speedup * (1 + width))
    return Measurement(
        stage=stage,
        device_id=device_id,
        threads=threads,
        workloads=tuple(
            WorkloadMeasurement(
                workload=name,
                candidate_us=10 / speedup,
                kernel_only_us=9 / speedup,
                baselines_us={best_baseline: 10.0},
                best_baseline=best_baseline,
                speedup_over_best=speedup,
                interval=interval,
                pairs=5,
                share_of_floor=0.5,
                parameters_are_cold=False,
                decision="undecided",
            )
            for name in workloads
        ),
        traffic_weighted_speedup=speedup,
        interval=interval,
        decision="undecided",
        wall_s=1.0,
    )


def attempt(
    source: str,
    measured: Measurement | None = None,
    *,
    parents: tuple[Attempt, ...] = (),
    is_accepted: bool = True,
    agent: str = "search",
    note: str = "",
    **candidate: object,
) -> Attempt:
    accepted = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=1, worst_error_in_bounds=0.0)
    return Attempt(
        proposal=Proposal(
            candidate=Candidate.model_validate({"language": "cpp", "source": source, **candidate}),
            agent=agent,
            parents=tuple(parent.proposal.candidate.id for parent in parents),
            note=note,
        ),
        verdict=accepted if is_accepted else REJECTED,
        measurement=measured if is_accepted else None,
    )
