"""The runtime of a build: it serves what it was measured for, and leaves everything else as it was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM
from transformers.models.llama import modeling_llama

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.manifest import site_of
from candidates.serving_build.runtime import install
from candidates.weight_formats import WeightFormat, drawn_for
from traces.sites import OpSite, SiteKind

VOCABULARY = 128


def run(model: torch.nn.Module, tokens: int, batch: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(tokens)
    ids = torch.randint(0, VOCABULARY, (batch, tokens), generator=generator)
    positions = torch.arange(tokens).expand(batch, tokens)
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=ids, position_ids=positions).logits
    return logits


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_serves_module_function_and_region_sites(model: LlamaForCausalLM, build: Build) -> None:
    expected = run(model, 4)
    installation = install(model, build.path)
    assert_same(run(model, 4), expected)
    assert installation.failures == {}
    hits = {
        build_kernel.op: installation.counters()[build_kernel.id]["hits"] for build_kernel in build.manifest.kernels
    }
    assert hits == {"LlamaRMSNorm": 5, "Linear": 2, "apply_rotary_pos_emb": 2, "LlamaMLP.region0": 2}
    assert installation.prepared_bytes == 2 * 64 * 64 * 4
    installation.uninstall()


def test_shapes_that_did_not_win_fall_back_and_count(
    model: LlamaForCausalLM, build: Build, linear: ShippedKernel
) -> None:
    expected = run(model, 5, batch=2)
    installation = install(model, build.path)
    assert torch.allclose(run(model, 5, batch=2), expected, atol=1e-4)
    counters = installation.counters()[linear.candidate.id]
    assert counters["hits"] == 0
    assert counters["miss_reasons"] == {"shape not won": 2}
    installation.uninstall()


@pytest.fixture
def norm(model: LlamaForCausalLM) -> torch.nn.Module:
    return model.model.norm


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda norm: norm(torch.ones(1, 2, 64, dtype=torch.bfloat16)), "type"),
        (lambda norm: norm(torch.ones(2, 64)), "shape"),
        (lambda norm: norm(torch.ones(1, 0, 64)), "shape"),
        (lambda norm: norm(torch.ones(1, 64, 2).transpose(1, 2)), "strides"),
        (lambda norm: norm(torch.ones(1, 1, 64).expand(1, 3, 64)), "strides"),
        (lambda norm: norm(torch.nn.Parameter(torch.ones(1, 2, 64))), "arguments"),
    ],
)
def test_calls_outside_the_guard_go_to_the_original(
    model: LlamaForCausalLM, norm: torch.nn.Module, build: Build, rmsnorm: ShippedKernel, call, reason: str
) -> None:
    with torch.no_grad():
        expected = call(norm)
        installation = install(model, build.path)
        got = call(norm)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    counters = installation.counters()[rmsnorm.candidate.id]
    assert (counters["hits"], counters["miss_reasons"]) == (0, {reason: 1})
    installation.uninstall()


def test_gradients_flow_through_the_original(model: LlamaForCausalLM, norm: torch.nn.Module, build: Build) -> None:
    installation = install(model, build.path)
    x = torch.ones(1, 2, 64, requires_grad=True)
    norm(x).sum().backward()
    assert x.grad is not None
    installation.uninstall()


def test_autocast_goes_to_the_original(model: LlamaForCausalLM, build: Build) -> None:
    installation = install(model, build.path)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert model.model.layers[0].self_attn.q_proj(torch.ones(1, 1, 64)).dtype is torch.bfloat16
    installation.uninstall()


def test_stride_of_a_dim_of_size_one_does_not_matter(
    model: LlamaForCausalLM, norm: torch.nn.Module, build: Build, rmsnorm: ShippedKernel
) -> None:
    installation = install(model, build.path)
    x = torch.randn(1, 7, 64)
    with torch.no_grad():
        torch.testing.assert_close(norm(x[:, -1:, :]), norm(x)[:, -1:, :])
    assert installation.counters()[rmsnorm.candidate.id]["hits"] == 2
    installation.uninstall()


def test_keyword_arguments_are_served(
    model: LlamaForCausalLM, norm: torch.nn.Module, build: Build, rmsnorm: ShippedKernel
) -> None:
    installation = install(model, build.path)
    with torch.no_grad():
        norm(hidden_states=torch.ones(1, 2, 64))
    assert installation.counters()[rmsnorm.candidate.id]["hits"] == 1
    installation.uninstall()


def test_an_argument_given_twice_is_the_originals_error(model: LlamaForCausalLM, build: Build) -> None:
    q, angles = torch.randn(1, 4, 3, 16), torch.randn(1, 3, 16)
    installation = install(model, build.path)
    with pytest.raises(TypeError):
        modeling_llama.apply_rotary_pos_emb(q, q, angles, q=q)
    installation.uninstall()


def test_function_called_with_another_argument_goes_to_the_original(
    model: LlamaForCausalLM, build: Build, rope: ShippedKernel
) -> None:
    q, k = torch.randn(1, 3, 4, 16), torch.randn(1, 3, 2, 16)
    angles = torch.randn(1, 3, 16)
    expected = modeling_llama.apply_rotary_pos_emb(q, k, angles, angles, unsqueeze_dim=2)
    installation = install(model, build.path)
    got = modeling_llama.apply_rotary_pos_emb(q, k, angles, angles, unsqueeze_dim=2)
    assert all(torch.equal(*pair) for pair in zip(got, expected, strict=True))
    assert installation.counters()[rope.candidate.id]["miss_reasons"] == {"arguments": 1}
    installation.uninstall()


@pytest.mark.parametrize("change", ["in place", "replaced", "moved"])
def test_changed_weights_are_packed_again(model: LlamaForCausalLM, build: Build, change: str) -> None:
    installation = install(model, build.path)
    projection = model.model.layers[0].self_attn.q_proj
    x = torch.randn(1, 1, 64)
    with torch.no_grad():
        projection(x)
        match change:
            case "in place":
                projection.weight.mul_(2.0)
            case "replaced":
                projection.weight = torch.nn.Parameter(torch.randn(64, 64))
            case _:
                projection.weight.data = torch.randn(64, 64)
        assert_same(projection(x), torch.nn.functional.linear(x, projection.weight))
    assert sum(counter["misses"] for counter in installation.counters().values()) == 0
    installation.uninstall()


def test_weights_are_checked_against_the_format_that_a_kernel_keeps_them_in(
    model: LlamaForCausalLM, linear: ShippedKernel, tmp_path: Path, device: DeviceFingerprint
) -> None:
    x, weight = linear.task.inputs
    kept = weight.model_copy(update={"stored_as": WeightFormat.Q4_1})
    packed = replace(linear, task=linear.task.model_copy(update={"inputs": (x, kept)}))
    build = write_build(tmp_path, "tiny", device, [packed])
    assert build.manifest.schema_version == 3
    on_grid = model.model.layers[0].self_attn.q_proj
    with torch.no_grad():
        drawn = drawn_for(WeightFormat.Q4_1, on_grid.weight.numpy(), np.random.default_rng(0))
        on_grid.weight.copy_(torch.from_numpy(drawn))
    expected = run(model, 4)
    installation = install(model, build.path)
    assert_same(run(model, 4), expected)
    assert "q4_1 cannot hold" in installation.failures[linear.candidate.id]
    counters = installation.counters()[linear.candidate.id]
    assert (counters["hits"], counters["miss_reasons"]) == (1, {"not fitting": 1})
    with torch.no_grad():
        on_grid.weight[3, 4] += 1e-4
    run(model, 4)
    assert installation.counters()[linear.candidate.id]["miss_reasons"] == {"not fitting": 2, "parameters": 1}
    installation.uninstall()


def test_model_in_another_type_falls_back(model: LlamaForCausalLM, build: Build) -> None:
    installation = install(model, build.path)
    expected = run(model, 3)
    torch.testing.assert_close(run(model.bfloat16(), 3).float(), expected, rtol=0.2, atol=0.5)
    assert installation.counters()[build.manifest.kernels[0].id]["misses"] > 0
    installation.uninstall()


def test_uninstall_restores_the_model(model: LlamaForCausalLM, build: Build) -> None:
    original = modeling_llama.apply_rotary_pos_emb
    installation = install(model, build.path)
    assert modeling_llama.apply_rotary_pos_emb is not original
    installation.uninstall()
    installation.uninstall()
    assert modeling_llama.apply_rotary_pos_emb is original
    assert not any("forward" in vars(module) for module in model.modules())
    run(model, 4)
    assert all(counter["hits"] == 0 for counter in installation.counters().values())


def test_kill_switch_installs_nothing(model: LlamaForCausalLM, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILER_AGENT_DISABLE", "1")
    installation = install(model, build.path)
    assert installation.obstacle == "COMPILER_AGENT_DISABLE is set"
    assert not any("forward" in vars(module) for module in model.modules())


def test_serves_under_torch_compile(model: LlamaForCausalLM, build: Build, linear: ShippedKernel) -> None:
    expected = {tokens: run(model, tokens) for tokens in (3, 5, 20)}
    installation = install(model, build.path)
    compiled = torch.compile(model, dynamic=True, fullgraph=True, backend="aot_eager")
    for tokens, logits in expected.items():
        assert_same(run(compiled, tokens), logits)
    counters = installation.counters()
    assert all(counter["hits"] > 0 for counter in counters.values())
    assert counters[linear.candidate.id]["miss_reasons"] == {"shape not won": 2}
    installation.uninstall()
    assert_same(run(compiled, 3), expected[3])


TWO_REGIONS = """
def make_forward(regions):
    def forward(self, x):
        activated = regions["region0"](self.gate_proj(x))
        return self.down_proj(regions["region1"](activated, self.up_proj(x)))
    return forward
"""
PRODUCT = """
#include <cstdint>
extern "C" void kernel(const float* a, const float* b, float* y, int64_t batch, int64_t tokens) {
  for (int64_t i = 0; i < batch * tokens * 96; ++i) y[i] = a[i] * b[i];
}
"""


def two_region_sites() -> list[OpSite]:
    sources = {
        "region0": "def region(gate):\n    return torch.nn.functional.silu(gate)\n",
        "region1": "def region(activated, up):\n    return activated * up\n",
    }
    paths = ("model.layers.0.mlp", "model.layers.1.mlp")
    return [
        OpSite(
            op=f"LlamaMLP.{name}",
            kind=SiteKind.REGION,
            level="leaf",
            pattern="model.layers.*.mlp",
            module_paths=paths,
            region=name,
            block_source=TWO_REGIONS,
            region_source=source,
        )
        for name, source in sources.items()
    ]


def test_a_region_without_a_kernel_keeps_the_blocks_own_operations(
    model: LlamaForCausalLM, tmp_path: Path, device: DeviceFingerprint, ship: Callable[..., ShippedKernel], swiglu
) -> None:
    sites = two_region_sites()
    product = ship(swiglu.task, PRODUCT, site_of(sites[1], sites))
    build = write_build(tmp_path, "tiny", device, [product])
    expected = run(model, 4)
    installation = install(model, build.path)
    assert_same(run(model, 4), expected)
    assert installation.counters()[product.candidate.id]["hits"] == 2
    installation.uninstall()
    assert not any("forward" in vars(module) for module in model.modules())
