"""A model of transformers with a build in it, loaded by the documented line: compiled whole, and saying the same."""

import pytest
import torch
from transformers import LlamaForCausalLM

from candidates.serving_build.build import Build
from candidates.serving_build.runtime import install


def generate(model: LlamaForCausalLM) -> list[int]:
    prompt = torch.arange(1, 6).unsqueeze(0)
    tokens: torch.Tensor = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=24,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
    )
    return tokens[0].tolist()


def total_hits(installation: object) -> int:
    return sum(counted["hits"] for counted in installation.counters().values())  # type: ignore[attr-defined]


def test_generates_the_same_tokens(model: LlamaForCausalLM, build: Build) -> None:
    expected = generate(model)
    assert len(set(expected[5:])) > 2
    installation = install(model, build.path)
    assert generate(model) == expected
    assert all(counted["hits"] for counted in installation.counters().values())
    installation.uninstall()


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiles_without_a_graph_break(model: LlamaForCausalLM, build: Build, backend: str) -> None:
    ids, more = torch.arange(4).unsqueeze(0), torch.arange(7).unsqueeze(0)
    with torch.inference_mode():
        expected = [model(input_ids=each, use_cache=False).logits for each in (ids, more)]
        installation = install(model, build.path)
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        got = [compiled(input_ids=each, use_cache=False).logits for each in (ids, more)]
    assert total_hits(installation) == 2 * 11
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    installation.uninstall()


def test_dynamo_sees_one_graph(model: LlamaForCausalLM, build: Build) -> None:
    installation = install(model, build.path)
    with torch.inference_mode():
        explained = torch._dynamo.explain(model)(input_ids=torch.arange(4).unsqueeze(0), use_cache=False)
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    installation.uninstall()
