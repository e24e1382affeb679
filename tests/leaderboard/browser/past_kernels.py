"""Ops, devices, kernels and their measurements, as a nightly run over SmolLM2 found them; figures are made up."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from candidates.agent import Attempt
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.device import BandwidthCeiling, DeviceCeilings, DeviceFingerprint
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.task import ErrorBound, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Accepted, Evidence, EvidenceKind, Reason, Rejected, Verdict, WorstElement
from tests.leaderboard.browser.texts import Say, briefly

MODEL = "smollm2-135m-instruct"
CLASSES = ("chat", "coding")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpOfPast:
    name: str
    site: str
    level: SiteLevel
    share_of_time: float
    rows: int
    columns: int
    eager_us: float
    speedups: tuple[float, ...]
    """Of what the search tried, in its order."""
    tokens: tuple[int, ...] = (1, 1, 1, 1)


OPS = (
    OpOfPast(
        name="LlamaMLP.decode",
        site="model.layers.*.mlp",
        level=SiteLevel.BLOCK,
        share_of_time=0.227,
        rows=576,
        columns=1536,
        eager_us=642.0,
        speedups=(2.51, 2.67, 1.42, 2.77),
    ),
    OpOfPast(
        name="Linear[576,1536].decode",
        site="model.layers.*.mlp.gate_proj|model.layers.*.mlp.up_proj",
        level=SiteLevel.LEAF,
        share_of_time=0.151,
        rows=576,
        columns=1536,
        eager_us=211.0,
        speedups=(2.96, 2.87, 1.35),
    ),
    OpOfPast(
        name="Linear[576,49152]",
        site="lm_head",
        level=SiteLevel.LEAF,
        share_of_time=0.118,
        rows=576,
        columns=49152,
        eager_us=7420.0,
        speedups=(3.13, 3.29, 1.47, 3.42),
    ),
    OpOfPast(
        name="Linear[1536,576].decode",
        site="model.layers.*.mlp.down_proj",
        level=SiteLevel.LEAF,
        share_of_time=0.076,
        rows=1536,
        columns=576,
        eager_us=198.0,
        speedups=(2.34, 2.20, 2.62),
    ),
    OpOfPast(
        name="Linear[576,576].decode",
        site="model.layers.*.self_attn.q_proj|model.layers.*.self_attn.o_proj",
        level=SiteLevel.LEAF,
        share_of_time=0.064,
        rows=576,
        columns=576,
        eager_us=74.0,
        speedups=(2.49, 2.36, 1.27, 2.65),
    ),
    OpOfPast(
        name="LlamaMLP.prefill",
        site="model.layers.*.mlp",
        level=SiteLevel.BLOCK,
        share_of_time=0.058,
        rows=576,
        columns=1536,
        eager_us=9120.0,
        speedups=(2.28, 2.35, 0.73),
        tokens=(512, 196, 94, 49),
    ),
    OpOfPast(
        name="LlamaRMSNorm.decode",
        site="model.layers.*.input_layernorm|model.layers.*.post_attention_layernorm",
        level=SiteLevel.LEAF,
        share_of_time=0.021,
        rows=1,
        columns=576,
        eager_us=18.4,
        speedups=(0.94, 0.97),
    ),
    OpOfPast(
        name="apply_rotary_pos_emb.decode",
        site="model.layers.*.self_attn",
        level=SiteLevel.LEAF,
        share_of_time=0.012,
        rows=1,
        columns=64,
        eager_us=41.0,
        speedups=(1.02, 0.99),
    ),
)
_BATCHES = (1, 2, 4, 6)

_SOURCE = """\
// {op}: one stage, written from the graph of the task.
// Schedule: row_tile={tile}, column_tile=2, depth_unroll={unroll}, weights={weights}
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {{

constexpr int W = 16, ROWS = {tile}, DEPTH = {rows}, COLUMNS = {columns};
typedef float F __attribute__((vector_size(W * 4)));

inline F load(const float* p) {{ F v; memcpy(&v, p, sizeof v); return v; }}
inline void store(float* p, F v) {{ memcpy(p, &v, sizeof v); }}

// One tile of the output: its rows share every weight that is read.
void tile(const float* x, const float* weight, float* y, int64_t height) {{
  F sum[ROWS][2] = {{}};
  for (int64_t k = 0; k < DEPTH; k += {unroll})
    for (int64_t u = 0; u < {unroll}; ++u) {{
      const F left = load(weight + (k + u) * 2 * W), right = load(weight + (k + u) * 2 * W + W);
      for (int r = 0; r < ROWS && r < height; ++r) {{
        sum[r][0] += x[r * DEPTH + k + u] * left;
        sum[r][1] += x[r * DEPTH + k + u] * right;
      }}
    }}
  for (int r = 0; r < ROWS && r < height; ++r) {{
    store(y + r * COLUMNS, sum[r][0]);
    store(y + r * COLUMNS + W, sum[r][1]);
  }}
}}

}}  // namespace

extern "C" void kernel(const float* x, const float* weight, float* y, int64_t batch, int64_t tokens) {{
  const int64_t rows = batch * tokens;
  for (int64_t top = 0; top < rows; top += ROWS)
    for (int64_t column = 0; column < COLUMNS; column += 2 * W)
      tile(x + top * DEPTH, weight + column * DEPTH, y + top * COLUMNS + column, rows - top);
}}
"""
_TRITON = """\
# {op}: a block of rows a program, weights read once.
import triton
import triton.language as tl


@triton.jit
def matmul_silu(x, gate, up, y, rows, WIDTH: tl.constexpr, DEPTH: tl.constexpr, TILE: tl.constexpr):
    row, column = tl.program_id(0) * TILE, tl.program_id(1) * {tile}
    total_gate = tl.zeros((TILE, {tile}), dtype=tl.float32)
    total_up = tl.zeros((TILE, {tile}), dtype=tl.float32)
    for depth in range(0, DEPTH, {unroll}):
        left = tl.load(x + (row + tl.arange(0, TILE))[:, None] * DEPTH + depth + tl.arange(0, {unroll})[None, :])
        total_gate += tl.dot(left, tl.load(gate + depth * WIDTH + column))
        total_up += tl.dot(left, tl.load(up + depth * WIDTH + column))
    tl.store(y + row * WIDTH + column, total_gate * tl.sigmoid(total_gate) * total_up)
"""

_REFERENCE = "def reference(x, weight):\n    return torch.nn.functional.linear(x, weight)  # {comment}\n"


@functools.cache
def cpu(say: Say) -> DeviceFingerprint:
    return DeviceFingerprint(
        kind=briefly(say, "cpu"),
        model=say("AMD EPYC family 26 model 2 stepping 1"),
        features=tuple(map(say, ("avx2", "avx512f", "fma"))),
        cores=2,
        cache_bytes=(48 << 10, 1 << 20, 32 << 20),
        compiler=say("g++ 12.2.0"),
        torch_version=say("2.13.0"),
    )


@functools.cache
def gpu(say: Say) -> DeviceFingerprint:
    return DeviceFingerprint(
        kind=briefly(say, "cuda"),
        model=say("NVIDIA H200"),
        features=(say("sm_90"),),
        cores=132,
        cache_bytes=(256 << 10, 50 << 20),
        compiler=say("triton 3.9.0"),
        torch_version=say("2.13.0"),
    )


def ceilings_of(device: DeviceFingerprint) -> DeviceCeilings:
    scale = 60.0 if device.kind.startswith("cuda") else 1.0
    levels = tuple(
        BandwidthCeiling(working_set_bytes=size, bytes_per_s=scale * rate)
        for size, rate in zip((*device.cache_bytes, 256 << 20), (410e9, 190e9, 92e9, 39.5e9), strict=False)
    )
    return DeviceCeilings(
        device_id=device.id,
        threads=1,
        read=levels,
        copy_bandwidth=levels,
        flops_per_s={"float32": scale * 270e9},
        dispatch_us=3.1,
    )


def make_task(op: OpOfPast, device: DeviceFingerprint, say: Say) -> KernelTask:
    def tensor(name: str, *shape: int | str) -> dict[str, object]:
        return {"name": name, "element_type": "float32", "shape": shape, "dim_order": tuple(range(len(shape)))}

    workloads = []
    for number, (batch, tokens) in enumerate(zip(_BATCHES, op.tokens, strict=True)):
        calls = 1.1e6 * op.share_of_time / (number + 1)
        by_class = {briefly(say, name): calls * share for name, share in zip(CLASSES, (0.8, 0.2), strict=True)}
        workloads.append(
            Workload(axes={"batch": batch, "tokens": tokens}, calls_per_hour=calls, calls_per_hour_by_class=by_class)
        )
    workloads.append(Workload(axes={"batch": 3, "tokens": 5}, calls_per_hour=0.0, is_hidden=True))
    weight = {**tensor("weight", op.columns, op.rows), "role": "parameter", "attribute": say("weight")}
    return KernelTask(
        op=say(op.name),
        site=say(op.site),
        level=op.level,
        reference=_REFERENCE.format(comment=say("as torch has it")),
        inputs=(
            InputSpec.model_validate({**tensor("x", "batch", "tokens", op.rows), "role": "activation"}),
            InputSpec.model_validate(weight),
        ),
        outputs=(TensorSpec.model_validate(tensor("y", "batch", "tokens", op.columns)),),
        axes=("batch", "tokens"),
        workloads=tuple(workloads),
        covered_share=0.974,
        error_bound=ErrorBound(scaled_error=5.8e-7),
        instances=30,
        device_id=device.id,
        architectures=("sm_90",) if device.kind.startswith("cuda") else (),
    )


def make_candidate(op: OpOfPast, number: int, say: Say, *, night: int, language: str = "cpp") -> Candidate:
    tile, unroll, weights = (8, 4, 6, 2)[number % 4], (2, 4)[number // 2 % 2], ("panels", "rows")[number % 2]
    is_triton = language == "triton"
    template = _TRITON if is_triton else _SOURCE
    source = template.format(
        op=op.name,
        tile=16 * tile if is_triton else tile,
        unroll=unroll,
        weights=weights,
        rows=op.rows,
        columns=op.columns,
    )
    return Candidate(
        language=LanguageName(language),
        source=f"{say(source)}{'#' if is_triton else '//'} {night}\n" if night else say(source),
        entry=say("kernel"),
        prepare=say("prepare") if weights == "panels" else None,
        launch_parameters={"row_tile": tile, "depth_unroll": unroll, say("weights"): say(weights)},
        build_flags=(say("-funroll-loops"),) if number == 1 else (),
    )


def measure(op: OpOfPast, task: KernelTask, speedup: float, stage: Stage) -> Measurement:
    workloads = []
    for number, workload in enumerate(task.public_workloads):
        rows = workload.axes["batch"] * workload.axes["tokens"]
        own = speedup * (1.0 - 0.06 * number)
        eager_us = op.eager_us * (1.0 + 0.3 * number)
        kernel_us = eager_us / own
        workloads.append(
            WorkloadMeasurement(
                workload=workload.name,
                candidate_us=kernel_us + 3.1,
                kernel_only_us=kernel_us,
                baselines_us={
                    Baseline.EAGER: eager_us,
                    Baseline.EAGER_OUT: 1.03 * eager_us,
                    Baseline.COMPILE: 1.4 * eager_us,
                },
                best_baseline=Baseline.EAGER,
                speedup_over_best=own,
                interval=Interval(0.97 * own, 1.02 * own),
                pairs=140 if stage is Stage.CONFIRM else 20,
                share_of_floor=min(0.19 * own, 0.98),
                parameters_are_cold=True,
                decision=decision_for(own),
                flops=2 * rows * op.rows * op.columns,
                moved_bytes=4 * (op.rows * op.columns + rows * (op.rows + op.columns)),
            )
        )
    return Measurement(
        stage=stage,
        device_id=task.device_id,
        threads=1,
        workloads=tuple(workloads),
        traffic_weighted_speedup=speedup,
        interval=Interval(0.97 * speedup, 1.02 * speedup),
        decision=decision_for(speedup),
        prepare_us=13743.0,
        prepared_bytes=26_542_080,
        wall_s=10.1,
    )


def decision_for(speedup: float) -> Decision:
    return Decision.WIN if speedup > 1.05 else Decision.LOSE if speedup < 0.98 else Decision.UNDECIDED


def accepted() -> Accepted:
    return Accepted(evidence=EvidenceKind.NATIVE, seed=3501, calls_checked=48, worst_error_in_bounds=0.226)


def wrong_values(task: KernelTask, say: Say) -> Rejected:
    worst = WorstElement(
        output=say("y"), index=(0, 0, 17), expected=say("0.2314"), got=say("nan"), bound=say("1.1e-06")
    )
    evidence = Evidence(
        message=say("element [0, 0, 17] of y lies 4.1e+03 bounds from the oracle"),
        distribution=say("normal"),
        worst=worst,
        share_of_elements_wrong=0.31,
        log_tail=say("judging batch=1,tokens=1\nnormal: 178 of 576 elements are wrong\n"),
    )
    workload = say(task.public_workloads[0].name)
    return Rejected(reason=Reason.WRONG_VALUES, workload=workload, evidence=evidence, seed=17)


def does_not_build(say: Say) -> Rejected:
    log = "kernel.cpp:41:17: error: no matching function for call to 'load(const float*&, Tail&)'\n"
    evidence = Evidence(message=say("the compiler refused it: no matching function"), log_tail=say(log * 12))
    return Rejected(reason=Reason.BUILD_FAILED, workload=None, evidence=evidence, seed=17)


def make_attempt(
    candidate: Candidate,
    say: Say,
    *,
    agent: str = "search",
    endpoint: str | None = None,
    parents: Sequence[Candidate] = (),
    note: str,
    verdict: Verdict,
    measurement: Measurement | None = None,
    transcript: str | None = None,
    cost_usd: float = 0.0,
) -> Attempt:
    proposal = Proposal(
        candidate=candidate,
        agent=say(agent),
        model=None if endpoint is None else say(endpoint),
        parents=tuple(parent.id for parent in parents),
        note=say(note),
        round_id=say("generation-1"),
        transcript=transcript,
        cost_usd=cost_usd,
    )
    return Attempt(proposal=proposal, verdict=verdict, measurement=measurement)


def shares_by_class(op: OpOfPast, say: Say) -> Mapping[str, float]:
    return {briefly(say, "chat"): 1.08 * op.share_of_time, briefly(say, "coding"): 0.7 * op.share_of_time}
