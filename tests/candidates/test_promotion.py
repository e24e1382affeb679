import pytest

from candidates.measurement import Interval
from candidates.promotion import EndToEnd, WonKernel, choose_levels, decide_build

MLP = tuple(f"model.layers.{i}.mlp" for i in range(2))
DECODE, PREFILL = frozenset({"batch=1,tokens=1"}), frozenset({"batch=1,tokens=200"})


def won(name, paths, level="leaf", workloads=DECODE, saved=0.1):
    return WonKernel(
        task_id=name, candidate_id=name, module_paths=paths, level=level, workloads=workloads, saved_share=saved
    )


def names(kernels):
    return [kernel.task_id for kernel in kernels]


GATE = won("gate", tuple(f"{path}.gate_proj" for path in MLP), saved=0.06)
DOWN = won("down", tuple(f"{path}.down_proj" for path in MLP), saved=0.03)
REGION = won("region", MLP, saved=0.01)
NORM = won("norm", tuple(f"model.layers.{i}.input_layernorm" for i in range(2)))
ROTARY = won("rotary", ())


def test_a_block_that_saves_more_replaces_what_lies_within_it():
    block = won("block", MLP, level="block", saved=0.2)
    assert names(choose_levels((GATE, block, DOWN, REGION, NORM, ROTARY))) == ["block", "norm", "rotary"]


def test_leaves_that_save_more_together_replace_their_block():
    block = won("block", MLP, level="block", saved=0.08)
    assert names(choose_levels((block, GATE, DOWN, REGION, NORM))) == ["gate", "down", "region", "norm"]


def test_kernels_for_other_shapes_do_not_compete():
    block = won("block", MLP, level="block", workloads=PREFILL, saved=0.2)
    assert names(choose_levels((block, GATE))) == ["block", "gate"]


def test_a_site_that_is_partly_elsewhere_stays():
    both = won("both", (f"{MLP[0]}.gate_proj", "model.layers.0.self_attn.q_proj"))
    block = won("block", MLP, level="block", saved=0.2)
    assert names(choose_levels((block, both))) == ["block", "both"]


LAYERS = tuple(f"model.layers.{i}" for i in range(2))
STEP = frozenset({"batch=1,capacity=512,context=300,tokens=1"})


def test_a_layers_decode_step_replaces_what_decodes_within_it():
    layer = won("layer", LAYERS, level="layer", workloads=STEP, saved=0.4)
    rotary = won("rotary", tuple(f"{path}.self_attn" for path in LAYERS), workloads=DECODE)
    prefill = won("prefill", GATE.module_paths, workloads=PREFILL)
    of_batch = won("of batch", GATE.module_paths, workloads=frozenset({"batch=8,tokens=1"}))
    chosen = choose_levels((GATE, NORM, layer, rotary, prefill, of_batch))
    assert names(chosen) == ["layer", "prefill", "of batch"]


def test_what_decodes_within_a_layer_may_save_more_than_it():
    layer = won("layer", LAYERS, level="layer", workloads=STEP, saved=0.1)
    attention = won(
        "attention", tuple(f"{path}.self_attn" for path in LAYERS), level="block", workloads=STEP, saved=0.2
    )
    assert names(choose_levels((GATE, layer, attention))) == ["gate", "attention"]


def test_calls_of_rows_are_calls_of_a_batch_of_tokens():
    head = won("rows", (f"{MLP[0]}.gate_proj",), workloads=frozenset({"rows=8"}))
    layer = won("layer", LAYERS, level="layer", workloads=frozenset({"batch=8,context=4,tokens=1"}), saved=0.4)
    assert names(choose_levels((head, layer))) == ["layer"]


FIGURES = EndToEnd(
    build_id="b",
    threads=1,
    decode_tokens_per_s={},
    prefill_tokens_per_s={},
    ttft_s={},
    speedup=1.3,
    speedup_interval=Interval(1.2, 1.4),
    decode_speedup=1.5,
    decode_speedup_interval=Interval(1.4, 1.6),
    prefill_speedup=1.0,
    prefill_speedup_interval=Interval(0.98, 1.02),
    kl_divergence=1e-9,
    positions=2000,
    greedy_agreement=1.0,
    greedy_positions=1990,
    hits={"a": 10},
    misses={"a": 3},
    peak_memory_bytes={"eager": 100, "build": 100},
    kl_of_long=1e-9,
    kl_noise=0.0,
    logprob_drift=0.0,
    logit_noise=0.0,
    row_split_difference=0.0,
    wall_s=1.0,
)


def changed(fields):
    return EndToEnd.model_validate(FIGURES.model_dump() | fields)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"kl_noise": 1e-3, "kl_divergence": 1.9e-3},
        {"logit_noise": 0.1, "row_split_difference": 0.2},
        {"over_current": (1.001, 1.2)},
        {"peak_memory_bytes": {"eager": 100, "build": 200}},
    ],
)
def test_a_build_that_meets_every_bound_passes(change):
    assert all(gate.passed for gate in decide_build(changed(change)))


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({"speedup_interval": (0.99, 1.4)}, "faster end to end"),
        ({"decode_speedup_interval": (0.9, 0.98)}, "decode not slower"),
        ({"prefill_speedup_interval": (0.9, 0.98)}, "time to first token not worse"),
        ({"kl_divergence": 1e-4}, "KL divergence"),
        ({"positions": 1999}, "KL divergence"),
        ({"kl_of_long": 1e-3}, "KL divergence"),
        ({"kl_noise": 1e-4, "kl_divergence": 2.1e-4}, "KL divergence"),
        ({"logprob_drift": 1e-3}, "log probability of fixed prompts"),
        ({"row_split_difference": 1.1e-3}, "rows owe nothing to rows beside them"),
        ({"over_current": (0.999, 1.2)}, "faster than the live build"),
        ({"peak_memory_bytes": {"eager": 100, "build": 201}}, "peak memory"),
        ({"greedy_agreement": 0.999}, "greedy agreement beyond noise"),
        ({"hits": {"a": 10, "b": 0}}, "every kernel was called"),
        ({"hits": {}}, "every kernel was called"),
    ],
)
def test_one_figure_out_of_bounds_fails_its_gate_alone(change, gate):
    gates = decide_build(changed(change))
    assert [failed.name for failed in gates if not failed.passed] == [gate]
