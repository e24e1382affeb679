"""Kernels of modules that update a key/value cache, in real models: what caches hold, whoever serves which call."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import DynamicCache, StaticCache

from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.manifest import Bound
from candidates.serving_build.runtime import Installation, install, reserved_length
from candidates.task import InputRole, KernelTask
from tests.candidates.serving_build.naive_layer import attention_source, decode_step, extract_op, layer_source
from tests.candidates.serving_build.tiny_tasks import local_device
from traces.served_model import ServedModel, open_model

LAYERS = 3
STEPS = [decode_step(1, 9), decode_step(2, 20)]


@pytest.fixture(scope="module")
def served(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    return open_model(str(tiny_llama), tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def original(served: ServedModel) -> Any:
    return served.load()


Kernel = Callable[[str, str], ShippedKernel]


@pytest.fixture(scope="module")
def kernel_of(served: ServedModel, original: Any, ship: Any) -> Kernel:
    fake, extracted = served.fake_module(), {}

    def make(op: str, source: str) -> ShippedKernel:
        if op not in extracted:
            extracted[op] = extract_op(fake, original, op, STEPS)
        task, site = extracted[op]
        kernel: ShippedKernel = ship(task.model_copy(update={"device_id": local_device().id}), source, site)
        return kernel

    return make


@pytest.fixture(scope="module")
def layer_kernel(kernel_of: Kernel, original: Any) -> ShippedKernel:
    return kernel_of("LlamaDecoderLayer", layer_source(original.config))


def build_of(kernel: ShippedKernel, folder: Path) -> Build:
    return write_build(folder, "tiny", local_device(), [kernel])


@pytest.fixture(scope="module")
def layer_build(layer_kernel: ShippedKernel, tmp_path_factory: pytest.TempPathFactory) -> Build:
    return build_of(layer_kernel, tmp_path_factory.mktemp("build"))


@pytest.fixture
def model(served: ServedModel) -> Any:
    return served.load()


def counts_of(installation: Installation) -> dict[str, Any]:
    assert installation.failures == {}
    (counts,) = installation.counters().values()
    assert counts["errors"] == 0
    return counts


def prefilled(model: Any, tokens: int = 6, batch: int = 1) -> DynamicCache:
    cache = DynamicCache(config=model.config)
    read(model, cache, [[(3 * n + row) % 101 for n in range(tokens)] for row in range(batch)])
    return cache


def read(model: Any, cache: Any, tokens: list[list[int]], **more: Any) -> torch.Tensor:
    ids = torch.tensor(tokens)
    positions = (cache.get_seq_length() + torch.arange(ids.shape[1])).expand(ids.shape).contiguous()
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=ids, position_ids=positions, cache=cache, use_cache=True, **more).logits
    return logits


def assert_same_caches(ours: Any, theirs: Any) -> None:
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        torch.testing.assert_close(mine.keys, other.keys, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine.values, other.values, rtol=1e-4, atol=1e-5)


def test_all_layers_are_one_task_of_states_that_grow(layer_kernel: ShippedKernel) -> None:
    task: KernelTask = layer_kernel.task
    states = {spec.name: (spec.shape, spec.allocated) for spec in task.inputs_of(InputRole.STATE)}
    shape, allocated = ("batch", 2, "context", 12), ("batch", 2, "capacity", 12)
    assert states == {"keys": (shape, allocated), "values": (shape, allocated)}
    assert task.instances == LAYERS
    assert "slice_6.copy_(" in task.reference
    assert "position_ids" not in task.reference
    call = layer_kernel.site.call
    assert call is not None
    assert call.cache is not None
    assert call.cache.layers == (0, 1, 2)
    assert (call.unused, call.constants, call.returns) == (("position_ids",), {"use_cache": True}, None)


@pytest.mark.parametrize("batch", [1, 3])
def test_generates_the_same_tokens(model: Any, original: Any, layer_build: Build, batch: int) -> None:
    ids = torch.tensor([[5, 6, 7, 8 + row] for row in range(batch)])
    wanted = original.generate(ids, max_new_tokens=80, min_new_tokens=80, do_sample=False)
    installation = install(model, layer_build.path)
    assert torch.equal(model.generate(ids, max_new_tokens=80, min_new_tokens=80, do_sample=False), wanted)
    counts = counts_of(installation)
    assert (counts["hits"], counts["miss_reasons"]) == (79 * LAYERS, {"arguments": LAYERS})  # of the prompt
    installation.uninstall()


def test_beam_search_finds_the_same(model: Any, original: Any, layer_build: Build) -> None:
    ids = torch.tensor([[5, 6, 7, 8]])
    wanted = original.generate(ids, max_new_tokens=24, num_beams=3, do_sample=False)
    installation = install(model, layer_build.path)
    assert torch.equal(model.generate(ids, max_new_tokens=24, num_beams=3, do_sample=False), wanted)
    assert counts_of(installation)["hits"] > 0
    installation.uninstall()


def test_a_cache_grows_in_place(model: Any, layer_build: Build) -> None:
    installation = install(model, layer_build.path)
    cache = prefilled(model)
    read(model, cache, [[1]])
    places = [layer.keys.data_ptr() for layer in cache.layers]
    for token in range(reserved_length(7) - 7):
        read(model, cache, [[token]])
        assert [layer.keys.data_ptr() for layer in cache.layers] == places
    read(model, cache, [[1]])
    assert all(layer.keys.data_ptr() != place for layer, place in zip(cache.layers, places, strict=True))
    installation.uninstall()


def test_a_shallow_copy_goes_its_own_way(model: Any, original: Any, layer_build: Build) -> None:
    installation = install(model, layer_build.path)
    pairs = []
    for each in (model, original):
        first = prefilled(each)
        read(each, first, [[1]])
        second = copy.copy(first)
        second.layers = [copy.copy(layer) for layer in first.layers]
        for token in (2, 3):
            read(each, first, [[token]])
            read(each, second, [[token + 50]])
        pairs.append((first, second))
    for ours, theirs in zip(*pairs, strict=True):
        assert_same_caches(ours, theirs)
    installation.uninstall()


_ACTIONS = st.tuples(
    st.sampled_from(
        ["decode", "decode", "decode", "masked", "several", "copy", "deepcopy", "crop", "reorder", "repeat"]
    ),
    st.integers(0, 7),
    st.integers(1, 100),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(_ACTIONS, min_size=4, max_size=14))
def test_caches_behave_as_without_kernels(
    model: Any, original: Any, layer_build: Build, actions: list[tuple[str, int, int]]
) -> None:
    """Served and original calls mixed, over caches that are copied, cropped, reordered and repeated."""
    installation = install(model, layer_build.path)
    caches = [(prefilled(model), prefilled(original))]
    for action, which, number in actions:
        pair = caches[which % len(caches)]
        length, batch = pair[0].get_seq_length(), pair[0].layers[0].keys.shape[0]
        tokens = [[(number + row) % 101] for row in range(batch)]
        match action:
            case "decode":
                ours, theirs = (read(*side, tokens) for side in zip((model, original), pair, strict=True))
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
            case "masked":
                mask = torch.ones(batch, length + 1, dtype=torch.long)
                mask[:, 0] = 0
                for side in zip((model, original), pair, strict=True):
                    read(*side, tokens, attention_mask=mask)
            case "several":
                for side in zip((model, original), pair, strict=True):
                    read(*side, [row * 3 for row in tokens])
            case "copy" | "deepcopy" if len(caches) < 4:
                caches.append((_copied(pair[0], action), _copied(pair[1], action)))
            case "crop" if length > 3:
                for cache in pair:
                    cache.crop(-(1 + number % 3))
            case "reorder":
                for cache in pair:
                    cache.reorder_cache(torch.arange(batch).flip(0))
            case "repeat" if batch < 4:
                for cache in pair:
                    cache.batch_repeat_interleave(2)
        for ours, theirs in caches:
            assert_same_caches(ours, theirs)
    assert counts_of(installation)["hits"] >= LAYERS * sum(action == "decode" for action, _, _ in actions)
    installation.uninstall()


def _copied(cache: Any, how: str) -> Any:
    if how == "deepcopy":
        return copy.deepcopy(cache)
    twin = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin


class CacheOfAnotherKind(DynamicCache):
    """May do anything."""


@pytest.mark.parametrize("what", ["mask", "kind", "static", "no cache", "no use_cache", "hook", "argument"])
def test_other_calls_go_to_the_original(model: Any, original: Any, layer_build: Build, what: str) -> None:
    installation = install(model, layer_build.path)
    answers = []
    for each in (model, original):
        cache: Any = prefilled(each)
        ids, more = torch.tensor([[4]]), {"use_cache": True}
        seen: list[Any] = []
        match what:
            case "mask":
                more["attention_mask"] = torch.tensor([[0] + [1] * 6])
            case "kind":
                other = CacheOfAnotherKind(config=each.config)
                other.layers = cache.layers
                cache = other
            case "static":
                cache = StaticCache(config=each.config, max_cache_len=16)
                read(each, cache, [[1, 2, 3]])
            case "no cache":
                cache, more = None, {"use_cache": False}
            case "no use_cache":
                more = {"use_cache": False}
            case "hook":
                each.model.layers[0].mlp.register_forward_hook(lambda *_, seen=seen: seen.append(1))
            case "argument":
                more["unheard_of"] = 3
        with torch.no_grad():
            answers.append(each(input_ids=ids, cache=cache, **more).logits)
        assert len(seen) == (what == "hook")
    for module in (model, original):
        module.model.layers[0].mlp._forward_hooks.clear()
    torch.testing.assert_close(*answers, rtol=1e-4, atol=1e-5)
    served = counts_of(installation)["hits"]
    assert served == (LAYERS - 1 if what == "hook" else 0)
    installation.uninstall()


def test_shadow_compares_on_copies_of_the_cache(model: Any, original: Any, layer_build: Build) -> None:
    installation = install(model, layer_build.path, shadow_one_in=1)
    ours, theirs = prefilled(model), prefilled(original)
    for token in range(5):
        torch.testing.assert_close(read(model, ours, [[token]]), read(original, theirs, [[token]]))
    assert_same_caches(ours, theirs)
    assert counts_of(installation)["shadow"] == {"agreed": 5 * LAYERS, "disagreed": 0, "failed": 0}
    installation.uninstall()


def test_what_a_disagreeing_kernel_left_in_the_cache_is_taken_back(
    model: Any, original: Any, layer_kernel: ShippedKernel, kernel_of: Kernel, tmp_path: Path
) -> None:
    wrong = layer_kernel.candidate.source.replace("= v[h * WIDTH + d];", "= 2 * v[h * WIDTH + d];")
    assert wrong != layer_kernel.candidate.source
    installation = install(model, build_of(kernel_of("LlamaDecoderLayer", wrong), tmp_path).path, shadow_one_in=1)
    ours, theirs = prefilled(model), prefilled(original)
    for token in range(3):
        torch.testing.assert_close(read(model, ours, [[token]]), read(original, theirs, [[token]]))
    assert_same_caches(ours, theirs)
    assert counts_of(installation)["switched_off"] is not None
    installation.uninstall()


def test_compiled_graphs_keep_the_original(model: Any, original: Any, layer_build: Build) -> None:
    installation = install(model, layer_build.path)
    ours, theirs = prefilled(model), prefilled(original)
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(read(compiled, ours, [[9]]), read(original, theirs, [[9]]), rtol=1e-4, atol=1e-5)
    assert_same_caches(ours, theirs)
    assert counts_of(installation)["hits"] == 0
    installation.uninstall()
    torch._dynamo.reset()


def test_an_attention_block_is_served_with_all_that_it_returns(
    model: Any, original: Any, kernel_of: Kernel, tmp_path: Path
) -> None:
    kernel = kernel_of("LlamaAttention", attention_source(original.config))
    assert kernel.site.call is not None
    assert kernel.site.call.returns == (True, False)
    installation = install(model, build_of(kernel, tmp_path).path)
    ours, theirs = prefilled(model, batch=2), prefilled(original, batch=2)
    for token in range(3):
        tokens = [[token], [token + 1]]
        torch.testing.assert_close(read(model, ours, tokens), read(original, theirs, tokens), rtol=1e-4, atol=1e-5)
    assert_same_caches(ours, theirs)
    assert counts_of(installation)["hits"] == 3 * LAYERS
    installation.uninstall()


def test_arguments_come_by_position_and_by_name(model: Any, layer_build: Build) -> None:
    installation = install(model, layer_build.path)
    layer = model.model.layers[1]
    angles = torch.rand(1, 1, 12), torch.rand(1, 1, 12)
    hidden = torch.rand(1, 1, 48)
    results = []
    with torch.no_grad():
        for arguments, keywords in (
            ((hidden,), {"position_embeddings": angles, "use_cache": True}),
            ((hidden, None, torch.tensor([[6]])), {"position_embeddings": angles, "use_cache": True}),
            ((), {"hidden_states": hidden, "position_embeddings": list(angles), "use_cache": True}),
        ):
            results.append(layer(*arguments, cache=prefilled(model), **keywords))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    assert counts_of(installation)["hits"] == 3
    installation.uninstall()


def test_a_layer_that_a_shape_did_not_win_is_not_served(
    model: Any, layer_kernel: ShippedKernel, tmp_path: Path
) -> None:
    small = dataclasses.replace(layer_kernel, ranges=((Bound(axes=("batch", "context"), low=1, high=2),),))
    installation = install(model, build_of(small, tmp_path).path)
    read(model, prefilled(model), [[1]])
    counts = counts_of(installation)
    assert (counts["hits"], counts["miss_reasons"]["shape not won"]) == (0, LAYERS)
    assert counts["missed_shapes"] == {"batch=1,capacity=64,context=7": LAYERS}
    installation.uninstall()
