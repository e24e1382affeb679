from pathlib import Path
from typing import Any

import pytest
import torch

from traces.capture import PROBES, capture_calls, find_model_sites, observe, observe_tensor
from traces.model_calls import ModelCall
from traces.replay.step import EngineStep
from traces.served_model import SyntheticCache, fake_mode_of, forward, open_model
from traces.sites import CapturedSite

STEPS = [
    EngineStep(
        prefill_tokens=6,
        prefill_context=0,
        decode_batch=2,
        decode_context=9,
        count=3.0,
        duration_s=1.0,
        share_by_class={"chat": 1.0},
    ),
    EngineStep(
        prefill_tokens=0,
        prefill_context=0,
        decode_batch=1,
        decode_context=14,
        count=5.0,
        duration_s=1.0,
        share_by_class={"chat": 0.4, "coding": 0.6},
    ),
]


@pytest.fixture(scope="module")
def fake_model(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_model(str(tiny_llama), tmp_path_factory.mktemp("home")).fake_module()


@pytest.fixture(scope="module")
def captured(fake_model: Any) -> dict[str, CapturedSite]:
    sites = find_model_sites(fake_model)
    return {each.site.op: each for each in capture_calls(fake_model, sites, STEPS, span_s=3600.0)}


def test_counts_every_instance_of_a_site(captured: dict[str, CapturedSite]) -> None:
    passes_per_hour = 3 + 3 + 5
    for op, per_pass in {"LlamaRMSNorm": 7, "Linear[48,80]": 6, "apply_rotary_pos_emb": 3, "Linear[48,101]": 1}.items():
        assert sum(call.calls_per_hour for call in captured[op].calls) == pytest.approx(per_pass * passes_per_hour)


def test_shared_layers_count_like_layers_that_all_run(fake_model: Any) -> None:
    call = ModelCall(batch=2, tokens=3, context=4)
    sites = find_model_sites(fake_model)
    norms = [0]
    handles = [
        module.register_forward_hook(lambda *_: norms.__setitem__(0, norms[0] + 1))
        for name, module in fake_model.named_modules()
        if name.endswith("norm")
    ]
    with fake_mode_of(fake_model):
        forward(fake_model, call, SyntheticCache(fake_model, call))
        for handle in handles:
            handle.remove()
        seen = dict(zip((site.op for site in sites), observe(fake_model, sites, call), strict=True))
    assert sum(seen["LlamaRMSNorm"].values()) == norms[0] == 7


def test_rates_divide_into_workload_classes(captured: dict[str, CapturedSite]) -> None:
    (single,) = [c for c in captured["LlamaMLP.region0"].calls if c.tensors[0].shape == (1, 1, 80)]
    assert single.calls_per_hour == pytest.approx(15.0)
    assert single.calls_per_hour_by_class == pytest.approx({"chat": 6.0, "coding": 9.0})


def test_sources_sum_to_the_rate_of_the_call(captured: dict[str, CapturedSite]) -> None:
    for each in captured.values():
        for call in each.calls:
            assert sum(rate.per_hour for rate in call.sources.values()) == pytest.approx(call.calls_per_hour)


def test_probes_are_among_the_calls_without_traffic(captured: dict[str, CapturedSite]) -> None:
    shapes = {call.tensors[0].shape: call.calls_per_hour for call in captured["LlamaRMSNorm"].calls}
    for probe in PROBES:
        assert shapes[(probe.batch, probe.tokens, 48)] == 0.0


def test_tensors_keep_name_layout_and_type(captured: dict[str, CapturedSite]) -> None:
    (prefill,) = [c for c in captured["apply_rotary_pos_emb"].calls if c.tensors[0].shape == (1, 4, 6, 12)]
    assert [tensor.argument for tensor in prefill.tensors] == ["q", "k", "cos", "sin"]
    assert prefill.tensors[0].strides[1:] == (12, 48, 1)
    assert {tensor.element_type for tensor in prefill.tensors} == {"float32"}
    assert prefill.settings == ()


def test_arguments_that_are_no_tensors_become_settings(captured: dict[str, CapturedSite]) -> None:
    (prompt,) = [c for c in captured["LlamaAttention"].calls if c.tensors[0].shape == (1, 6, 48)]
    assert ("cache", "DynamicCache") in prompt.settings  # it was empty
    assert ("use_cache", True) in prompt.constants
    assert all(dict(call.settings)["is_causal"] for call in captured["scaled_dot_product_attention"].calls)


def test_a_cache_is_seen_as_the_states_that_the_module_makes_longer(captured: dict[str, CapturedSite]) -> None:
    for op in ("LlamaAttention", "LlamaDecoderLayer"):
        (single,) = [c for c in captured[op].calls if c.sources.keys() == {ModelCall(batch=1, tokens=1, context=14)}]
        assert single.cache is not None
        assert (single.cache.argument, single.cache.grows_along, single.cache.grows_by) == ("cache", 2, 1)
        assert {t.argument: t.shape for t in single.tensors if t.argument.startswith("cache.")} == {
            "cache.keys": (1, 2, 15, 12),
            "cache.values": (1, 2, 15, 12),
        }
        assert single.settings == ()


def test_the_model_is_as_it_was(fake_model: Any) -> None:
    find_model_sites(fake_model)
    assert not any("forward" in vars(module) for module in fake_model.modules())
    assert torch.nn.functional.scaled_dot_product_attention.__name__ == "scaled_dot_product_attention"


def test_a_dim_of_size_one_has_the_stride_of_its_place() -> None:
    sliced = torch.zeros(4, 9, 8)[:1, -1:, :]
    assert observe_tensor("x", sliced).strides == (8, 8, 1)
