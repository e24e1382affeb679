"""Comparing served calls with the original, and switching off what fails."""

import random
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.manifest import InstallationSite
from candidates.serving_build.runtime import FAULTS_ALLOWED, SHADOW_ONE_IN, install
from candidates.task import InputRole, InputSpec
from tests.candidates.serving_build.tiny_tasks import make_task, taken, tensor
from traces.sites import SiteKind


def run(model: torch.nn.Module, tokens: int = 4) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=torch.arange(tokens)[None]).logits
    return logits


def test_agreement_is_counted_and_changes_no_result(model: LlamaForCausalLM, build: Build) -> None:
    without = install(model, build.path)
    expected = run(model)
    without.uninstall()
    state = random.getstate()
    installation = install(model, build.path, shadow_one_in=1)
    assert torch.equal(run(model), expected)
    assert random.getstate() == state
    for counters in installation.counters().values():
        assert counters["hits"] > 0
        assert counters["shadow"] == {"agreed": counters["hits"], "disagreed": 0, "failed": 0}
    installation.uninstall()


def test_about_one_call_in_n_is_compared(
    model: LlamaForCausalLM, build: Build, rmsnorm: ShippedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHADOW_ONE_IN, "4")
    installation = install(model, build.path)
    with torch.inference_mode():
        for _ in range(400):
            model.model.norm(torch.ones(1, 1, 64))
    assert 40 < installation.counters()[rmsnorm.candidate.id]["shadow"]["agreed"] < 200
    installation.uninstall()


@pytest.fixture
def wrong(tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel) -> Build:
    """Off by a factor of two."""
    kernel = ship(rmsnorm.task, rmsnorm.candidate.source.replace("* scale *", "* scale * 2 *"), rmsnorm.site)
    return write_build(tmp_path, "tiny", device, [kernel])


def test_a_kernel_that_disagrees_is_switched_off(model: LlamaForCausalLM, wrong: Build) -> None:
    expected = run(model)
    installation = install(model, wrong.path, shadow_one_in=1)
    assert torch.equal(run(model), expected)
    (counters,) = installation.counters().values()
    assert counters["hits"] == counters["shadow"]["disagreed"] == FAULTS_ALLOWED + 1
    assert counters["miss_reasons"] == {"switched off": 5 - counters["hits"]}
    assert "comparisons" in counters["switched_off"]
    installation.uninstall()


def test_shadow_sees_calls_of_compiled_graphs(model: LlamaForCausalLM, build: Build, wrong: Build) -> None:
    expected = run(model)
    installation = install(model, build.path, shadow_one_in=1)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(compiled), expected, rtol=1e-4, atol=1e-4)
    assert all(counters["shadow"]["agreed"] > 0 for counters in installation.counters().values())
    installation.uninstall()
    torch._dynamo.reset()
    installation = install(model, wrong.path, shadow_one_in=1)
    torch.testing.assert_close(run(torch.compile(model, fullgraph=True, backend="aot_eager")), expected)
    (counters,) = installation.counters().values()
    assert counters["switched_off"] is not None
    installation.uninstall()


def test_a_kernel_that_is_not_finite_is_switched_off_at_once(
    model: LlamaForCausalLM, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    kernel = ship(rmsnorm.task, rmsnorm.candidate.source.replace("* scale *", "* (scale / 0) *"), rmsnorm.site)
    build = write_build(tmp_path, "tiny", device, [kernel])
    expected = run(model)
    installation = install(model, build.path, shadow_one_in=1)
    assert torch.equal(run(model), expected)
    (counters,) = installation.counters().values()
    assert (counters["hits"], counters["miss_reasons"]) == (1, {"switched off": 4})
    assert "not finite" in counters["switched_off"]
    installation.uninstall()


def test_infinities_that_the_original_has_too_agree(model: LlamaForCausalLM, build: Build, rmsnorm) -> None:
    installation = install(model, build.path, shadow_one_in=1)
    with torch.inference_mode():
        model.model.norm(torch.full((1, 1, 64), torch.inf))
    assert installation.counters()[rmsnorm.candidate.id]["shadow"]["agreed"] == 1
    installation.uninstall()


def test_a_kernel_that_raises_is_switched_off(
    model: LlamaForCausalLM, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    # More than any machine has: the runtime cannot make such an output.
    task = rmsnorm.task.model_copy(update={"outputs": (tensor("y", "batch", "tokens", 1 << 46),)})
    build = write_build(tmp_path, "tiny", device, [ship(task, rmsnorm.candidate.source, rmsnorm.site)])
    expected = run(model)
    installation = install(model, build.path)
    assert torch.equal(run(model), expected)
    (counters,) = installation.counters().values()
    assert (counters["hits"], counters["errors"]) == (0, 1)
    assert counters["miss_reasons"] == {"switched off": 4}
    assert "raised" in counters["switched_off"]
    installation.uninstall()


ACCUMULATE = """
#include <cstdint>
extern "C" void kernel(const float* x, float* total, float* y, int64_t batch, int64_t tokens) {
  for (int64_t i = 0; i < batch * tokens * 64; ++i) { total[i] += x[i]; y[i] = 2 * total[i]; }
}
"""


class Accumulate(torch.nn.Module):
    def forward(self, x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total += x
        return 2 * total


@pytest.mark.parametrize("is_wrong", [False, True])
@pytest.mark.parametrize("shadow_one_in", [0, 1])
def test_states_are_written_once(
    tmp_path: Path, device: DeviceFingerprint, ship, is_wrong: bool, shadow_one_in: int
) -> None:
    state = InputSpec(**tensor("total", "batch", "tokens", 64).model_dump(), role=InputRole.STATE)
    task = make_task(
        "Accumulate", "", (taken(tensor("x", "batch", "tokens", 64)), state), (tensor("y", "batch", "tokens", 64),)
    )
    source = ACCUMULATE.replace("+= x[i]", "+= x[i] + 1") if is_wrong else ACCUMULATE
    site = InstallationSite(kind=SiteKind.MODULE, module_paths=("0",))
    build = write_build(tmp_path, "tiny", device, [ship(task, source, site)])
    model = torch.nn.Sequential(Accumulate())
    installation = install(model, build.path, shadow_one_in=shadow_one_in)
    x, total = torch.ones(1, 3, 64), torch.zeros(1, 3, 64)
    with torch.inference_mode():
        result = model[0](x, total)
    expected = 2.0 if is_wrong and not shadow_one_in else 1.0
    assert torch.equal(total, torch.full((1, 3, 64), expected))
    assert torch.equal(result, 2 * total)
    (counters,) = installation.counters().values()
    assert counters["shadow"] == {
        "agreed": int(shadow_one_in and not is_wrong),
        "disagreed": int(shadow_one_in and is_wrong),
        "failed": 0,
    }
    installation.uninstall()


def test_an_original_that_fails_in_a_comparison_does_not_fail_the_call(
    tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    class Fails(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise MemoryError

    site = InstallationSite(kind=SiteKind.MODULE, module_paths=("0",))
    build = write_build(tmp_path, "tiny", device, [ship(rmsnorm.task, rmsnorm.candidate.source, site)])
    model = torch.nn.Sequential(Fails())
    installation = install(model, build.path, shadow_one_in=1)
    with torch.inference_mode():
        model[0](torch.ones(1, 1, 64))
    (counters,) = installation.counters().values()
    assert counters["shadow"]["failed"] == 1
    assert counters["switched_off"] is None
    installation.uninstall()


def test_a_kernel_that_spoils_its_inputs_does_not_spoil_the_comparison(
    model: LlamaForCausalLM, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    spoils = rmsnorm.candidate.source.replace(
        "= x[row * 64 + i] * scale", "= const_cast<float*>(x)[row * 64 + i] = scale"
    )
    build = write_build(tmp_path, "tiny", device, [ship(rmsnorm.task, spoils, rmsnorm.site)])
    norm, x = model.model.norm, torch.randn(1, 2, 64)
    with torch.inference_mode():
        expected = norm(x)
        installation = install(model, build.path, shadow_one_in=1)
        assert torch.equal(norm(x), expected)
    (counters,) = installation.counters().values()
    assert counters["shadow"]["disagreed"] == 1
    installation.uninstall()
