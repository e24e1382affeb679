"""Sites of a real architecture, and of modules that no code names."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from traces.capture import find_model_sites
from traces.find_sites import find_sites
from traces.interpose import interposed
from traces.model_calls import ModelCall
from traces.regions import load_region, make_forward, trace_block
from traces.served_model import SyntheticCache, forward, open_model
from traces.sites import OpSite, SiteKind


@pytest.fixture(scope="module")
def sites(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, OpSite]:
    module = open_model(str(tiny_llama), tmp_path_factory.mktemp("home")).fake_module()
    return {site.op: site for site in find_model_sites(module)}


def test_finds_modules_functions_and_regions_at_every_level(sites: dict[str, OpSite]) -> None:
    assert {op: (site.kind.value, site.level, len(site.module_paths)) for op, site in sites.items()} == {
        "Embedding": ("module", "leaf", 1),
        "Linear[48,48]": ("module", "leaf", 6),
        "Linear[48,24]": ("module", "leaf", 6),
        "Linear[48,80]": ("module", "leaf", 6),
        "Linear[80,48]": ("module", "leaf", 3),
        "LlamaRMSNorm": ("module", "leaf", 7),
        "Linear[48,101]": ("module", "leaf", 1),
        "apply_rotary_pos_emb": ("function", "leaf", 3),
        "scaled_dot_product_attention": ("function", "leaf", 3),
        "LlamaMLP.region0": ("region", "leaf", 3),
        "LlamaAttention": ("module", "block", 3),
        "LlamaMLP": ("module", "block", 3),
        "LlamaDecoderLayer": ("module", "layer", 3),
    }


def test_pattern_collapses_layer_numbers(sites: dict[str, OpSite]) -> None:
    norm = sites["LlamaRMSNorm"].pattern
    assert norm == "model.layers.*.input_layernorm|model.layers.*.post_attention_layernorm|model.norm"


def test_interposing_at_every_site_leaves_the_model_bitwise_as_it_was(
    sites: dict[str, OpSite], tiny_llama: Path, tmp_path: Path
) -> None:
    module = open_model(str(tiny_llama), tmp_path).load()
    call = ModelCall(batch=1, tokens=5, context=2)
    cache = SyntheticCache(module, call)
    before = forward(module, call, cache)
    called = set()

    def wrap(index: int, original):  # type: ignore[no-untyped-def]
        def noting(*arguments, **keywords):  # type: ignore[no-untyped-def]
            called.add(index)
            return original(*arguments, **keywords)

        return noting

    with interposed(module, list(sites.values()), wrap):
        within = forward(module, call, cache)
    assert called == set(range(len(sites)))
    assert torch.equal(before, within)
    assert torch.equal(before, forward(module, call, cache))
    assert not any("forward" in vars(child) for child in module.modules())


def mix_gated(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(gate)


class Gate(nn.Module):
    """A block that no library has: a bias-free gate, a branch of two outputs, an unused argument."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * width, bias=False)
        self.outer = nn.Linear(width, width)
        self.activation = nn.GELU(approximate="tanh")

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        a, b = self.inner(x).chunk(2, dim=-1)
        hidden = self.activation(a) * b
        return torch.sigmoid(self.outer(hidden)) * hidden + x


class Layer(nn.Module):
    def __init__(self, width: int, number: int) -> None:
        super().__init__()
        self.number = number
        self.norm = nn.LayerNorm(width)
        self.gate = Gate(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 1e9:  # no symbolic tracer follows this
            return x
        return mix_gated(self.gate(self.norm(x)), x)


class Stack(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(width, number) for number in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_finds_sites_of_a_model_that_nobody_listed() -> None:
    model = Stack(8).eval()
    found = {site.op: site for site in find_sites(model, lambda: model(torch.randn(2, 3, 8)))}
    leaves = ["LayerNorm", "Linear[8,16]", "Linear[8,8]", "mix_gated", "Gate.region0", "Gate.region1"]
    assert list(found) == [*leaves, "Gate", "Layer"]
    assert found["mix_gated"].function == f"{__name__}.mix_gated"
    assert sys.modules[__name__].mix_gated is mix_gated


def test_a_block_with_its_own_regions_gives_the_same_bits() -> None:
    block = Gate(8).eval()
    x = torch.randn(3, 5, 8)
    traced = trace_block(block, (x,), {})
    assert traced is not None
    assert set(traced.regions) == {"region0", "region1"}
    regions = {name: load_region(source) for name, source in traced.regions.items()}
    with torch.no_grad():
        assert torch.equal(make_forward(traced.block_source, block, regions)(x), block(x))


def test_a_block_calls_the_regions_that_it_is_given() -> None:
    block = Gate(8).eval()
    x = torch.randn(2, 8)
    traced = trace_block(block, (x,), {})
    assert traced is not None
    regions = {name: load_region(source) for name, source in traced.regions.items()}
    regions["region1"] = lambda *tensors: torch.full((2, 8), 7.0)
    with torch.no_grad():
        assert torch.equal(make_forward(traced.block_source, block, regions)(x), torch.full((2, 8), 7.0))


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).mul_(2.0).add_(x)


class ViewsOnly(InPlace):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).transpose(0, 1).unsqueeze(0)


class Branching(InPlace):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return torch.relu(y) * 2 if y.sum() > 0 else y


@pytest.mark.parametrize("block", [InPlace, ViewsOnly, Branching])
def test_a_block_that_cannot_be_cut_has_no_regions(block: type[nn.Module]) -> None:
    assert trace_block(block().eval(), (torch.randn(4, 4),), {}) is None


def test_region_kinds_say_what_they_need(sites: dict[str, OpSite]) -> None:
    for site in sites.values():
        assert (site.kind is SiteKind.REGION) == (site.block_source is not None) == (site.region_source is not None)
        assert (site.kind is SiteKind.FUNCTION) == (site.function is not None)
