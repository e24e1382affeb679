"""Tasks from a real architecture and from modules that no code names."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from candidates.extraction import Obstacle, extract_task
from candidates.inputs import Distribution, draw_inputs
from candidates.reference import run_oracle, run_reference
from candidates.task import InputRole, KernelTask, SiteLevel
from traces.capture import capture_calls, find_model_sites, observe_tensor
from traces.find_sites import find_sites
from traces.model_calls import CallRate, ModelCall
from traces.replay.step import EngineStep
from traces.served_model import open_model
from traces.sites import CapturedSite, OpSite, SiteCall, SiteKind


def step(prefill: int, context: int, batch: int, decode_context: int, count: float) -> EngineStep:
    return EngineStep(
        prefill_tokens=prefill,
        prefill_context=context,
        decode_batch=batch,
        decode_context=decode_context,
        count=count,
        duration_s=1.0,
        share_by_class={"chat": 1.0},
    )


STEPS = [step(17, 0, 2, 30, 10.0), step(0, 0, 1, 40, 100.0), step(60, 17, 5, 33, 7.0)]


@pytest.fixture(scope="module")
def model(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_model(str(tiny_llama), tmp_path_factory.mktemp("home")).load()


@pytest.fixture(scope="module")
def captured(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CapturedSite]:
    fake = open_model(str(tiny_llama), tmp_path_factory.mktemp("home")).fake_module()
    return {each.site.op: each for each in capture_calls(fake, find_model_sites(fake), STEPS, span_s=3600.0)}


@pytest.fixture(scope="module")
def extracted(captured: dict[str, CapturedSite], model: Any) -> dict[str, KernelTask | Obstacle]:
    return {op: extract(model, each) for op, each in captured.items()}


def extract(model: nn.Module, captured: CapturedSite, keep: int = 16) -> KernelTask | Obstacle:
    return extract_task(model, captured, time_us=lambda _: 1.0, device_id="cpu-0", threads=1, keep=keep)


def task_of(extracted: dict[str, KernelTask | Obstacle], op: str) -> KernelTask:
    task = extracted[op]
    assert isinstance(task, KernelTask), task
    return task


def test_every_plain_site_of_a_llama_becomes_a_task(extracted: dict[str, KernelTask | Obstacle]) -> None:
    obstacles = {op for op, result in extracted.items() if isinstance(result, Obstacle)}
    assert obstacles == {"scaled_dot_product_attention"}


def test_an_obstacle_says_what_stands_in_the_way(extracted: dict[str, KernelTask | Obstacle]) -> None:
    obstacle = extracted["scaled_dot_product_attention"]
    assert isinstance(obstacle, Obstacle)
    assert "is_causal=True" in obstacle.reason


def test_a_prompt_that_is_read_in_parts_has_no_task(model: Any, captured: dict[str, CapturedSite]) -> None:
    layer = captured["LlamaDecoderLayer"]
    parts = tuple(c for c in layer.calls if c.calls_per_hour and any(s.tokens > 1 for s in c.sources))
    obstacle = extract(model, dataclasses.replace(layer, calls=parts))
    assert isinstance(obstacle, Obstacle)
    assert "adds several tokens at once to its cache" in obstacle.reason


def test_a_layer_and_its_attention_are_tasks_of_a_decode_step(extracted: dict[str, KernelTask | Obstacle]) -> None:
    for op, level in (("LlamaAttention", SiteLevel.BLOCK), ("LlamaDecoderLayer", SiteLevel.LAYER)):
        task = task_of(extracted, op)
        assert (task.level, task.instances) == (level, 3)
        assert task.axes == ("batch", "context", "capacity")
        assert [spec.name for spec in task.inputs if spec.role is not InputRole.PARAMETER] == [
            "hidden_states",
            "position_embeddings_0",
            "position_embeddings_1",
            "keys",
            "values",
        ]
        assert "keys[:, :, -1:]" in task.reference
        assert task.public_calls >= {"batch=1,capacity=64,context=41,tokens=1"}


class Reversing(nn.Module):
    """Not what the first module of its kind is, though all its settings are."""

    def __init__(self, sign: list[float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.sign = sign

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return x * self.weight * self.sign[0] * scale


def test_every_module_of_a_site_is_held_to_its_task() -> None:
    model = nn.Module()
    model.layers = nn.ModuleList([Reversing([1.0]), Reversing([-1.0])])
    site = OpSite(
        op="Reversing",
        kind=SiteKind.MODULE,
        level="leaf",
        pattern="layers.*",
        module_paths=("layers.0", "layers.1"),
    )
    x = observe_tensor("x", torch.zeros(3, 8))
    calls = tuple(
        SiteCall(tensors=(dataclasses.replace(x, shape=(n, 8)),), calls_per_hour=1.0, constants=(("scale", 2.0),))
        for n in (3, 5)
    )
    obstacle = extract(model, CapturedSite(site=site, calls=calls))
    assert isinstance(obstacle, Obstacle)
    assert obstacle.reason == "layers.1 does not do what layers.0 does"


def test_reference_is_readable_and_parameters_come_first(extracted: dict[str, KernelTask | Obstacle]) -> None:
    norm = task_of(extracted, "LlamaRMSNorm")
    assert norm.reference == (
        "def reference(weight, hidden_states):\n"
        "    pow_1 = hidden_states.pow(2)\n"
        "    mean = pow_1.mean([-1], True)\n"
        "    add = mean + 1e-06\n"
        "    rsqrt = add.rsqrt()\n"
        "    mul = hidden_states * rsqrt\n"
        "    mul_1 = weight * mul\n"
        "    return mul_1\n"
    )
    assert [(spec.name, spec.role, spec.attribute) for spec in norm.inputs] == [
        ("weight", InputRole.PARAMETER, "weight"),
        ("hidden_states", InputRole.ACTIVATION, None),
    ]
    assert norm.inputs[1].shape == ("batch", "tokens", 48)
    assert (norm.instances, norm.level) == (7, SiteLevel.LEAF)


def test_parameters_of_a_block_keep_their_paths(extracted: dict[str, KernelTask | Obstacle]) -> None:
    mlp = task_of(extracted, "LlamaMLP")
    assert [spec.attribute for spec in mlp.inputs_of(InputRole.PARAMETER)] == [
        "gate_proj.weight",
        "up_proj.weight",
        "down_proj.weight",
    ]
    assert mlp.level is SiteLevel.BLOCK
    assert mlp.reference.count("torch.nn.functional.linear") == 3


def test_transposed_views_keep_their_order_in_memory(extracted: dict[str, KernelTask | Obstacle]) -> None:
    rotary = task_of(extracted, "apply_rotary_pos_emb")
    assert [(spec.name, spec.dim_order) for spec in rotary.inputs] == [
        ("q", (0, 2, 1, 3)),
        ("k", (0, 2, 1, 3)),
        ("cos", (0, 1, 2)),
        ("sin", (0, 1, 2)),
    ]
    assert [(spec.name, spec.shape, spec.dim_order) for spec in rotary.outputs] == [
        ("output0", ("batch", 4, "tokens", 12), (0, 2, 1, 3)),
        ("output1", ("batch", 2, "tokens", 12), (0, 2, 1, 3)),
    ]
    assert rotary.instances == 1


def test_index_takes_every_value_that_selects_something(
    extracted: dict[str, KernelTask | Obstacle], model: Any
) -> None:
    embedding = task_of(extracted, "Embedding")
    below = {spec.name: spec.below for spec in embedding.inputs}
    assert below == {"weight": None, "input": model.config.vocab_size}


def test_a_region_is_a_task_of_activations(extracted: dict[str, KernelTask | Obstacle]) -> None:
    region = task_of(extracted, "LlamaMLP.region0")
    assert [spec.name for spec in region.inputs] == ["gate_proj", "up_proj"]
    assert region.inputs_of(InputRole.PARAMETER) == ()


def test_reference_gives_the_modules_own_result_on_its_own_weights(
    extracted: dict[str, KernelTask | Obstacle], model: Any
) -> None:
    task = task_of(extracted, "LlamaMLP")
    block = model.model.layers[1].mlp
    for workload in task.workloads:
        inputs = draw_inputs(task, workload, Distribution.HEAVY_TAIL, np.random.default_rng(3))
        inputs |= {s.name: block.get_parameter(str(s.attribute)) for s in task.inputs_of(InputRole.PARAMETER)}
        with torch.no_grad():
            torch.testing.assert_close(run_reference(task, inputs)["output"], block(inputs["x"]))


def test_error_bound_is_that_of_the_op(extracted: dict[str, KernelTask | Obstacle]) -> None:
    for op, result in extracted.items():
        if not isinstance(result, KernelTask):
            continue
        if op == "Embedding":
            assert result.error_bound.scaled_error == 0.0
        else:
            assert 1e-8 < result.error_bound.scaled_error < 1e-5, op


def test_public_workloads_cover_the_traffic_and_hidden_ones_differ(
    extracted: dict[str, KernelTask | Obstacle],
) -> None:
    norm = task_of(extracted, "LlamaRMSNorm")
    assert {workload.name for workload in norm.public_workloads} == {
        "batch=1,tokens=1",
        "batch=1,tokens=17",
        "batch=1,tokens=60",
        "batch=2,tokens=1",
        "batch=5,tokens=1",
    }
    assert norm.covered_share == 1.0
    assert norm.hidden_workloads
    assert sum(workload.calls_per_hour for workload in norm.public_workloads) == pytest.approx(7 * (10 + 10 + 100 + 14))


class Mixer(nn.Module):
    """Classes that no library has: a LayerNorm with bias and mean, a gelu gate, a buffer, sizes of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(12)
        self.gate = nn.Linear(12, 24)
        self.register_buffer("shift", torch.linspace(-1, 1, 12))

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, tokens, _ = hidden.shape
        total = hidden + residual
        a, b = self.gate(self.norm(total)).view(batch, tokens, 2, 12).unbind(2)
        return nn.functional.gelu(a, approximate="tanh") * b + self.shift, total


class Doubling(Mixer):
    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return hidden.add_(residual)


class Listing(Mixer):
    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return hidden + residual[hidden.sum() > 0]


class Constant(Mixer):
    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return hidden + torch.tensor([1.0] * 12) * residual


class Noisy(Mixer):
    """Rounds away so much that a kernel in bfloat16 would pass as well."""

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return (1e4 * hidden + residual) - 1e4 * hidden


class Pair(nn.Module):
    """A served model of one layer list, with `block` twice."""

    def __init__(self, block: type[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(block()) for _ in range(2)])

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> Any:
        return [layer[0](hidden, residual) for layer in self.layers]  # type: ignore[index]


def captured_block(block: type[nn.Module]) -> tuple[nn.Module, CapturedSite]:
    model = Pair(block).eval()
    example = torch.randn(2, 3, 12)
    (site,) = [s for s in find_sites(Pair(Mixer), lambda: None) if s.op == "Mixer"]
    calls = []
    for source, rate in (
        (ModelCall(batch=2, tokens=3, context=0), 1.0),
        (ModelCall(batch=4, tokens=1, context=5), 9.0),
    ):
        example = torch.randn(source.batch, source.tokens, 12)
        tensors = tuple(observe_tensor(name, example) for name in ("hidden", "residual"))
        calls.append(SiteCall(tensors=tensors, calls_per_hour=rate, sources={source: CallRate(per_hour=rate)}))
    return model, CapturedSite(site=site, calls=tuple(calls))


def test_extracts_a_block_of_classes_that_nobody_listed() -> None:
    model, captured = captured_block(Mixer)
    task = extract(model, captured)
    assert isinstance(task, KernelTask), task
    assert [spec.attribute for spec in task.inputs] == [
        "norm.weight",
        "norm.bias",
        "gate.weight",
        "gate.bias",
        "shift",
        None,
        None,
    ]
    assert [spec.name for spec in task.outputs] == ["output0", "output1"]
    workload = task.public_workloads[0]
    inputs = draw_inputs(task, workload, Distribution.NORMAL, np.random.default_rng(0))
    exact, got = run_oracle(task, inputs), run_reference(task, inputs)
    assert exact["output0"].dtype is torch.float64
    torch.testing.assert_close(exact["output0"].float(), got["output0"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (Doubling, "changes its inputs"),
        (Listing, "cannot follow it"),
        (Constant, "neither a parameter nor an argument"),
        (Noisy, "would be unsound"),
    ],
)
def test_a_block_that_is_no_plain_function_is_an_obstacle(block: type[nn.Module], reason: str) -> None:
    model, captured = captured_block(block)
    obstacle = extract(model, captured)
    assert isinstance(obstacle, Obstacle)
    assert reason in obstacle.reason


def test_a_call_without_a_tensor_that_the_block_needs_is_an_obstacle() -> None:
    model, captured = captured_block(Mixer)
    second_only = [dataclasses.replace(call, tensors=call.tensors[1:]) for call in captured.calls]
    obstacle = extract(model, dataclasses.replace(captured, calls=tuple(second_only)))
    assert isinstance(obstacle, Obstacle)
    assert "cannot follow it" in obstacle.reason


def test_calls_with_settings_lower_the_covered_share() -> None:
    model, captured = captured_block(Mixer)
    odd = dataclasses.replace(captured.calls[0], settings=(("inverse", "True"),), calls_per_hour=10.0)
    task = extract(model, dataclasses.replace(captured, calls=(*captured.calls, odd)))
    assert isinstance(task, KernelTask)
    assert task.covered_share == pytest.approx(0.5)


OTHER_ARCHITECTURES = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "qwen3": {"head_dim": 16},
    "gemma2": {"head_dim": 8, "sliding_window": 16},
    "phi3": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", OTHER_ARCHITECTURES)
def test_other_architectures_stop_at_arguments_that_are_no_tensors_only(architecture: str, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
    }
    common = {"vocab_size": 101, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    own = OTHER_ARCHITECTURES[architecture]
    config = AutoConfig.for_model(architecture, **common, **(own if architecture == "gpt2" else sizes | own))
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / architecture)
    served = open_model(str(tmp_path / architecture), tmp_path / "home")
    fake, real = served.fake_module(), served.load()
    captured = capture_calls(fake, find_model_sites(fake), STEPS, span_s=3600.0)
    results = {each.site.op: extract(real, each, keep=4) for each in captured}
    assert any(op.endswith(".region0") for op in results)
    for op, result in results.items():
        assert isinstance(result, KernelTask) or "a kernel takes tensors alone" in result.reason, (op, result)
