"""What the runtime tells of its calls, and of calls from many threads."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from candidates.serving_build.build import Build, ShippedKernel
from candidates.serving_build.runtime import Installation, _label_pairs, install


def run_some(model: LlamaForCausalLM, build: Build) -> Installation:
    installation = install(model, build.path, shadow_one_in=1)
    with torch.inference_mode():
        for tokens in (3, 4, 20):
            model(input_ids=torch.arange(tokens)[None])
    installation.uninstall()
    return installation


def test_counts_are_by_kernel_reason_and_shape(
    model: LlamaForCausalLM, build: Build, linear: ShippedKernel, rmsnorm: ShippedKernel
) -> None:
    counters = run_some(model, build).counters()
    assert counters[linear.candidate.id] == {
        "op": "Linear",
        "hits": 4,
        "misses": 2,
        "miss_reasons": {"shape not won": 2},
        "missed_shapes": {"batch=1,tokens=20": 2},
        "shapes": {"batch=1,tokens=3": 2, "batch=1,tokens=4": 2},
        "shadow": {"agreed": 4, "disagreed": 0, "failed": 0},
        "errors": 0,
        "switched_off": None,
    }
    assert counters[rmsnorm.candidate.id]["shapes"]["batch=1,tokens=20"] == 5


def test_counters_can_be_read_again_and_again(model: LlamaForCausalLM, build: Build) -> None:
    installation = run_some(model, build)
    assert installation.counters() == installation.counters()


def test_the_json_document_holds_all_of_it(model: LlamaForCausalLM, build: Build, tmp_path: Path) -> None:
    installation = run_some(model, build)
    installation.write_counters(tmp_path / "counters.json")
    assert json.loads((tmp_path / "counters.json").read_text()) == {
        "build_id": build.id,
        "obstacle": None,
        "failures": {},
        "kernels": installation.counters(),
    }
    assert [path.name for path in tmp_path.iterdir()] == ["counters.json"]


SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)\{(?P<labels>[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="[^"]*")*)\} (?P<value>\d+)'
)


def test_prometheus_can_read_the_counters(model: LlamaForCausalLM, build: Build, linear: ShippedKernel) -> None:
    text = run_some(model, build).prometheus()
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    samples: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found is not None, line
            assert found["name"] in kinds
            key = (found["name"], found["labels"])
            assert key not in samples
            samples[key] = int(found["value"])
    assert all(name.endswith("_total") is (kind == "counter") for name, kind in kinds.items())
    kernel = f'build="{build.id}",kernel="{linear.candidate.id}",op="Linear"'
    prefix = "compiler_agent_kernel_"
    assert samples[f"{prefix}hits_total", kernel] == 4
    assert samples[f"{prefix}misses_total", f'{kernel},reason="shape not won"'] == 2
    assert samples[f"{prefix}comparisons_total", f'{kernel},outcome="agreed"'] == 4
    assert samples[f"{prefix}hit_shapes", kernel] == 2
    assert samples[f"{prefix}switched_off", kernel] == 0
    assert samples["compiler_agent_prepared_bytes", f'build="{build.id}"'] == 2 * 64 * 64 * 4


def test_labels_are_escaped() -> None:
    assert _label_pairs({"op": 'a"b\\c\nd'}) == r'op="a\"b\\c\nd"'


def test_calls_of_many_threads_are_all_counted(model: LlamaForCausalLM, build: Build, rmsnorm: ShippedKernel) -> None:
    installation = install(model, build.path)

    def call(thread: int) -> None:
        with torch.inference_mode():
            for turn in range(300):
                model.model.norm(torch.ones(1, 1 + (turn + thread) % 80, 64))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(8)))
    counters = installation.counters()[rmsnorm.candidate.id]
    assert counters["hits"] + counters["misses"] == 8 * 300
    assert len(counters["shapes"]) == 64
    installation.uninstall()
