"""The torch.library op that a compiled graph calls, and graphs with it."""

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM
from transformers.models.llama import modeling_llama

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.runtime import install


def ops_of(call: Callable[..., Any], *arguments: torch.Tensor) -> list[tuple[Any, int]]:
    """The ops in the graph of `call`, each with the number of its site."""
    found: list[tuple[Any, int]] = []

    def keep(graph: torch.fx.GraphModule, _: Sequence[torch.Tensor]) -> Callable[..., Any]:
        found.extend((each.target, each.args[-1]) for each in graph.graph.nodes if "compiler_agent" in str(each.target))
        return graph.forward

    with torch.no_grad():
        torch.compile(call, backend=keep, fullgraph=True)(*arguments)
    torch._dynamo.reset()
    return found


@pytest.mark.parametrize("tokens", [1, 3, 70])
def test_the_op_keeps_torchs_rules(model: LlamaForCausalLM, build: Build, tokens: int) -> None:
    """70 tokens are a miss: the original serves, within the op."""
    installation = install(model, build.path)
    x = torch.randn(1, tokens, 64)
    ((operator, site),) = ops_of(model.model.norm, x)
    torch.library.opcheck(operator, (x, site))
    q, k, angles = torch.randn(1, tokens, 4, 16), torch.randn(1, tokens, 2, 16), torch.randn(1, tokens, 16)
    tensors = (q.transpose(1, 2), k.transpose(1, 2), angles, angles)
    ((operator, site),) = ops_of(modeling_llama.apply_rotary_pos_emb, *tensors)
    torch.library.opcheck(operator, (*tensors, site))
    installation.uninstall()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_patched_model_compiles_into_one_graph(
    model: LlamaForCausalLM, build: Build, mode: Callable[[], AbstractContextManager[None]]
) -> None:
    ids = torch.arange(4)[None]
    with mode():
        expected = model(input_ids=ids).logits
        installation = install(model, build.path)
        explained = torch._dynamo.explain(model)(input_ids=ids)
        assert (explained.graph_count, explained.graph_break_count) == (1, 0)
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(input_ids=ids).logits, expected, rtol=1e-4, atol=1e-4)
    # Once as it was explained, once as it was compiled.
    hits = {counters["op"]: counters["hits"] for counters in installation.counters().values()}
    assert hits == {"LlamaRMSNorm": 10, "Linear": 4, "apply_rotary_pos_emb": 4, "LlamaMLP.region0": 4}
    installation.uninstall()


@pytest.mark.slow
def test_inductor_compiles_a_patched_model(model: LlamaForCausalLM, build: Build) -> None:
    ids = torch.arange(4)[None]
    with torch.inference_mode():
        expected = model(input_ids=ids).logits
        installation = install(model, build.path)
        compiled = torch.compile(model, fullgraph=True)
        torch.testing.assert_close(compiled(input_ids=ids).logits, expected, rtol=1e-4, atol=1e-4)
    assert all(counters["hits"] > 0 for counters in installation.counters().values())
    installation.uninstall()


def test_graphs_of_parameters_that_learn_keep_the_original(model: LlamaForCausalLM, build: Build) -> None:
    installation = install(model, build.path)
    torch.compile(model.model.norm, backend="aot_eager")(torch.ones(1, 2, 64)).sum().backward()
    assert model.model.norm.weight.grad is not None
    installation.uninstall()


def test_keyword_arguments_reach_the_op(model: LlamaForCausalLM, build: Build) -> None:
    installation = install(model, build.path)
    x = torch.randn(1, 2, 64)
    assert len(ops_of(lambda hidden: model.model.norm(hidden_states=hidden), x)) == 1
    installation.uninstall()


def test_a_graph_made_before_uninstalling_calls_the_original(model: LlamaForCausalLM, build: Build) -> None:
    installation = install(model, build.path)
    x = torch.randn(1, 2, 64)
    with torch.inference_mode():
        compiled = torch.compile(model.model.norm, fullgraph=True, backend="aot_eager")
        compiled(x)
        installation.uninstall()
        before = installation.counters()
        torch.testing.assert_close(compiled(x), model.model.norm(x))
    assert installation.counters() == before


def runtime_of(build: Path) -> ModuleType:
    """As a serving process may load it: no module of `sys.modules`."""
    spec = importlib.util.spec_from_file_location("runtime_of_a_build", build / "runtime.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_runtime_in_a_build_compiles_whatever_it_is_loaded_as(
    model: LlamaForCausalLM, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them in one process, as with two models."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    ids = torch.arange(4)[None]
    with torch.inference_mode():
        expected = model(input_ids=ids).logits
        for _ in range(2):
            installation = runtime_of(build.path).install(model, build.path)
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
            torch.testing.assert_close(compiled(input_ids=ids).logits, expected, rtol=1e-4, atol=1e-4)
            assert all(counters["hits"] > 0 for counters in installation.counters().values())
            installation.uninstall()
            torch._dynamo.reset()


def test_what_only_counts_compiles_too(
    model: LlamaForCausalLM, tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, monkeypatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    build = write_build(tmp_path, "tiny", device, [replace(rmsnorm, artifact=b"not a library")])
    ids = torch.arange(4)[None]
    with torch.inference_mode():
        expected = model(input_ids=ids).logits
        installation = runtime_of(build.path).install(model, build.path)
        assert len(installation.failures) == 1
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(input_ids=ids).logits, expected)
    installation.uninstall()
