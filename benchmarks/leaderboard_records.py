"""Records of a past that never was, for a ledger as large as years of nightly runs make it.

They have the shapes and sizes of real ones; their figures are drawn by chance. Those that there are many of are filled
into the dumps of real records, since a hundred thousand validations take minutes; every so many is validated.
"""

import random
from dataclasses import dataclass
from typing import Any

from candidates.device import BandwidthCeiling, DeviceCeilings, DeviceFingerprint
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.record import digest_of
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload
from candidates.verdict import Accepted, Evidence, EvidenceKind, NeedsDevice, Reason, Rejected, WorstElement

MODELS = ("smollm2-135m-instruct", "qwen3-0.6b", "gemma-3-270m-it")
ENDPOINTS = ("fable-5", "opus-4.8", "gpt-5.5", "local-qwen3-coder")
CLASSES = ("chat", "coding", "agents")
_WON_ABOVE, _LOST_UP_TO = 1.06, 0.97

_OPS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "smollm2-135m-instruct": (
        ("LlamaMLP.decode", "model.layers.*.mlp", "block"),
        ("LlamaMLP.prefill", "model.layers.*.mlp", "block"),
        ("LlamaRMSNorm.decode", "model.layers.*.input_layernorm|model.layers.*.post_attention_layernorm", "leaf"),
        ("Linear[576,576].decode", "model.layers.*.self_attn.q_proj|model.layers.*.self_attn.o_proj", "leaf"),
        ("Linear[576,1536].decode", "model.layers.*.mlp.gate_proj|model.layers.*.mlp.up_proj", "leaf"),
        ("Linear[1536,576].decode", "model.layers.*.mlp.down_proj", "leaf"),
        ("Linear[576,49152]", "lm_head", "leaf"),
        ("apply_rotary_pos_emb.decode", "model.layers.*.self_attn", "leaf"),
        ("LlamaMLP.region0.decode", "model.layers.*.mlp", "block"),
    ),
    "qwen3-0.6b": (
        ("Qwen3MLP.decode", "model.layers.*.mlp", "block"),
        ("Qwen3MLP.prefill", "model.layers.*.mlp", "block"),
        ("Qwen3RMSNorm.decode", "model.layers.*.input_layernorm|model.norm", "leaf"),
        ("Linear[1024,2048].decode", "model.layers.*.self_attn.q_proj", "leaf"),
        ("Linear[1024,3072].decode", "model.layers.*.mlp.gate_proj|model.layers.*.mlp.up_proj", "leaf"),
        ("Linear[3072,1024].decode", "model.layers.*.mlp.down_proj", "leaf"),
        ("Linear[1024,151936]", "lm_head", "leaf"),
        ("scaled_dot_product_attention.decode", "model.layers.*.self_attn", "leaf"),
    ),
    "gemma-3-270m-it": (
        ("Gemma3MLP.decode", "model.layers.*.mlp", "block"),
        ("Gemma3MLP.prefill", "model.layers.*.mlp", "block"),
        ("Gemma3RMSNorm.decode", "model.layers.*.input_layernorm|model.norm", "leaf"),
        ("Linear[640,1024].decode", "model.layers.*.self_attn.q_proj", "leaf"),
        ("Linear[640,2048].decode", "model.layers.*.mlp.gate_proj|model.layers.*.mlp.up_proj", "leaf"),
        ("Linear[2048,640].decode", "model.layers.*.mlp.down_proj", "leaf"),
        ("Linear[640,262144]", "lm_head", "leaf"),
        ("Embedding.decode", "model.embed_tokens", "leaf"),
    ),
}

_LINES = (
    "#pragma GCC unroll 4",
    "    const F scaled = load(x + row * WIDTH + column, Full{{}}) * splat(weight[{0}]);",
    "    for (int64_t depth = 0; depth < {0} && depth < columns; depth += W) {{",
    "        accumulator[{1}] += load(panel + depth * {0}, Full{{}}) * splat(input[depth]);",
    "        _mm_prefetch((const char*)(panel + {0}), _MM_HINT_T0);",
    "    }}  // {0} columns of the panel stay in the first cache",
    '    if (rows <= {1}) return small<{1}>(x, weight, y, rows);  /* "decode" has one row */',
    "    store(y + {0}, Tail{{int(columns & {1})}}, accumulator[0] / (splat(1.0f) + exponential(-accumulator[0])));",
    "    #pragma omp parallel for schedule(static) if (rows * columns > {0})",
    "template <int TILE> INLINE void tile_{0}(const float* __restrict x, float* y) {{",
)


def _body(characters: int) -> str:
    chance, lines, length = random.Random(0), [], 0
    while length < characters:
        line = chance.choice(_LINES).format(chance.randrange(4096), chance.randrange(16))
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A candidate with what later facts ask of it."""

    id: str
    offset: int
    length: int
    """Of its source in the body that all are cut from: a kernel and its parent differ in few lines."""
    outcome: str
    speedup: float


class Kernels:
    """Makes candidates of one seed, no two alike."""

    def __init__(self, seed: int) -> None:
        self._chance, self._body, self.made = random.Random(seed), _body(1_300_000), 0

    def make(self, task: KernelTask, parent: Kernel | None) -> tuple[Kernel, dict[str, Any]]:
        """And its record."""
        chance = self._chance
        self.made += 1
        if parent is None:
            length = min(int(chance.lognormvariate(8.6, 0.6)), 60_000)
            if self.made % 2_500 == 0:
                length = 1_000_000
            offset = chance.randrange(len(self._body) - length)
        else:
            offset, length = parent.offset, parent.length
        tile, unroll = chance.choice((1, 2, 4, 8, 16)), chance.choice((1, 2, 4))
        cut = offset + chance.randrange(length)
        language = "cpp" if task.device_id.startswith("cpu") else chance.choice(("triton", "triton", "cuda"))
        source = (
            f"// {task.op}: variant {self.made}.\n// Schedule: row_tile={tile}, unroll={unroll}\n"
            f"{self._body[offset:cut]}\n    prefetch(panel + {tile * 64}, {self.made});\n"
            f"{self._body[cut : offset + length]}\n"
        )
        record: dict[str, Any] = {
            "language": language,
            "source": source,
            "entry": "kernel",
            "prepare": "prepare" if chance.random() < 0.5 else None,
            "launch_parameters": {"row_tile": tile, "unroll": unroll, "weights": "panels", "number": self.made},
            "build_flags": [],
        }
        outcome = chance.choices(("accepted", "rejected", "needs_device"), (60, 35, 5))[0]
        before = 1.0 if parent is None else parent.speedup
        speedup = max(0.05, min(before * chance.lognormvariate(0.05, 0.25), 8.0))
        return Kernel(id=digest_of(record), offset=offset, length=length, outcome=outcome, speedup=speedup), record


def make_devices() -> tuple[DeviceFingerprint, ...]:
    def device(kind: str, model: str, features: tuple[str, ...], cores: int) -> DeviceFingerprint:
        return DeviceFingerprint(
            kind=kind,
            model=model,
            features=features,
            cores=cores,
            cache_bytes=(32 << 10, 1 << 20, 32 << 20),
            compiler="g++ 14.2.0",
            torch_version="2.13.0",
        )

    return (
        device("cpu", "AMD EPYC family 26 model 2", ("avx2", "avx512f"), 2),
        device("cuda", "NVIDIA H200", ("sm_90",), 132),
        device("cpu", "Neoverse-V2", ("asimd", "sve"), 4),
    )


def make_ceilings(device: DeviceFingerprint) -> DeviceCeilings:
    levels = tuple(
        BandwidthCeiling(working_set_bytes=size, bytes_per_s=2e11 / (level + 1))
        for level, size in enumerate((*device.cache_bytes, 256 << 20))
    )
    return DeviceCeilings(
        device_id=device.id,
        threads=1,
        read=levels,
        copy_bandwidth=levels,
        flops_per_s={"float32": 1e11, "bfloat16": 2e11},
        dispatch_us=3.0,
    )


def make_tasks(device: DeviceFingerprint, model: str, month: int) -> tuple[KernelTask, ...]:
    """Each month's traffic sends other shapes, so its tasks are others."""
    return tuple(make_task(device, month, number, *op) for number, op in enumerate(_OPS[model]))


def make_task(device: DeviceFingerprint, month: int, number: int, op: str, site: str, level: str) -> KernelTask:
    chance, width = random.Random(f"{op} {device.id} {month}"), 64 * (number + 2)
    x = {"element_type": "float32", "shape": ("batch", "tokens", width), "dim_order": (0, 1, 2)}
    weight = {"element_type": "float32", "shape": (width, width), "dim_order": (0, 1)}
    workloads, shown = list[Workload](), chance.choice((2, 3, 4))
    for batch in sorted(chance.sample(range(1, 48), 8)):
        calls = chance.lognormvariate(9, 1)
        by_class = {name: calls / len(CLASSES) for name in CLASSES}
        axes = {"batch": batch, "tokens": 1 if "decode" in op else 64 + month}
        is_hidden = len(workloads) >= shown
        workloads.append(
            Workload(axes=axes, calls_per_hour=calls, calls_per_hour_by_class=by_class, is_hidden=is_hidden)
        )
    return KernelTask.model_validate(
        {
            "op": op,
            "site": site,
            "level": level,
            "reference": f"def reference(x, weight):\n    # month {month}\n    return torch.relu(x @ weight) + x\n",
            "inputs": (
                InputSpec.model_validate({"name": "x", "role": "activation", **x}),
                InputSpec.model_validate({"name": "weight", "role": "parameter", "attribute": "weight", **weight}),
            ),
            "outputs": (TensorSpec.model_validate({"name": "output", **x}),),
            "axes": ("batch", "tokens"),
            "workloads": workloads,
            "error_bound": ErrorBound(scaled_error=1e-6),
            "instances": 30,
            "device_id": device.id,
            "architectures": ("sm_90",) if device.kind == "cuda" else (),
        }
    )


def make_measurement(task: KernelTask, speedup: float) -> dict[str, Any]:
    """A race; the next ones of the task are filled into a copy by `vary`."""
    interval = Interval(speedup * 0.97, speedup * 1.03)
    baselines_us = {Baseline.EAGER: 650.0, Baseline.EAGER_OUT: 610.0, Baseline.COMPILE: 690.0}
    workloads = tuple(
        WorkloadMeasurement(
            workload=workload.name,
            candidate_us=610.0 / speedup,
            kernel_only_us=607.0 / speedup,
            baselines_us=baselines_us,
            best_baseline=Baseline.EAGER_OUT,
            speedup_over_best=speedup,
            interval=interval,
            pairs=20,
            share_of_floor=min(0.2 * speedup, 1.0),
            parameters_are_cold=True,
            decision=Decision.WIN,
        )
        for workload in task.public_workloads
    )
    measurement = Measurement(
        stage=Stage.RACE,
        device_id=task.device_id,
        threads=1,
        workloads=workloads,
        traffic_weighted_speedup=speedup,
        interval=interval,
        decision=Decision.WIN,
        prepare_us=148_794.375,
        wall_s=2.3,
    )
    return measurement.model_dump(mode="json")


def decide(speedup: float) -> Decision:
    """Of a search's best and of each of its measurements alike."""
    if speedup > _WON_ABOVE:
        return Decision.WIN
    return Decision.UNDECIDED if speedup > _LOST_UP_TO else Decision.LOSE


def vary(template: dict[str, Any], chance: random.Random, stage: str, speedup: float) -> dict[str, Any]:
    """The measurement of another kernel: new figures in a copy of the template."""
    decision = decide(speedup).value
    pairs = {"screen": 5, "race": 20, "confirm": 60}[stage]
    workloads = []
    for each in template["workloads"]:
        own = speedup * (0.95 + 0.1 * chance.random())
        workloads.append(
            each
            | {
                "candidate_us": 610.123 / own,
                "kernel_only_us": 607.05 / own,
                "speedup_over_best": own,
                "interval": [own * 0.97, own * 1.03],
                "pairs": pairs,
                "share_of_floor": min(0.2 * own, 1.0),
                "decision": decision,
            }
        )
    return template | {
        "stage": stage,
        "workloads": workloads,
        "traffic_weighted_speedup": speedup,
        "interval": [speedup * 0.97, speedup * 1.03],
        "decision": decision,
    }


_ACCEPTED = Accepted(evidence=EvidenceKind.NATIVE, seed=3, calls_checked=48, worst_error_in_bounds=0.2).model_dump(
    mode="json"
)


def make_verdict(kernel: Kernel, task: KernelTask, chance: random.Random) -> dict[str, Any]:
    if kernel.outcome == "accepted":
        return _ACCEPTED
    if kernel.outcome == "needs_device":
        return NeedsDevice(target=task.device_id, note="no device of this kind is here").model_dump(mode="json")
    if chance.random() < 0.4:
        log = "kernel.cpp:41:17: error: no matching function for call to 'load(const float*&, Tail&)'\n" * 20
        evidence = Evidence(message="the compiler refused it: no matching function", log_tail=log[:2000])
        return Rejected(reason=Reason.BUILD_FAILED, workload=None, evidence=evidence, seed=1).model_dump(mode="json")
    worst = WorstElement(output="output", index=(0, 3, 17), expected="0.2314", got="nan", bound="1.1e-06")
    evidence = Evidence(
        message="element [0, 3, 17] of output lies 4.1e+03 bounds from the oracle",
        distribution="normal",
        worst=worst,
        share_of_elements_wrong=0.31,
    )
    workload = task.public_workloads[0].name
    verdict = Rejected(reason=Reason.WRONG_VALUES, workload=workload, evidence=evidence, seed=1)
    return verdict.model_dump(mode="json")


def make_attempt(
    kernel: Kernel,
    candidate: dict[str, Any],
    task: KernelTask,
    parent: Kernel | None,
    template: dict[str, Any],
    chance: random.Random,
) -> dict[str, Any]:
    endpoint = chance.choice(ENDPOINTS) if chance.random() < 0.3 else None
    is_accepted = kernel.outcome == "accepted"
    return {
        "proposal": {
            "candidate": candidate,
            "agent": "search" if endpoint is None else "llm",
            "model": endpoint,
            "parents": [] if parent is None else [parent.id],
            "note": "default schedule" if parent is None else "Smaller row tiles, so that both panels stay in cache.",
            "round_id": "",
            "transcript": None,
            "cost_usd": 0.0 if endpoint is None else round(chance.random() / 10, 4),
        },
        "verdict": make_verdict(kernel, task, chance),
        "measurement": vary(template, chance, "screen", kernel.speedup) if is_accepted else None,
        "counters": None,
    }
