"""The served model with and without a build, through the real sandbox."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaForCausalLM

from candidates.device import DeviceFingerprint
from candidates.promotion import PathName, decide_build
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.end_to_end import measure_end_to_end
from candidates.serving_build.quality import QualityPlan, kl_divergence
from candidates.serving_build.served_process import ModelFiles, ServedProcessEnded
from candidates.serving_build.speed import Pairs, Stratum, choose_strata, ratio, speedup
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from traces.model_calls import ModelCall
from traces.replay.step import EngineStep

STEPS = (
    EngineStep(
        prefill_tokens=24, prefill_context=8, decode_batch=3, decode_context=40, count=10.0, duration_s=1.0
    ),
    EngineStep(prefill_tokens=0, prefill_context=0, decode_batch=1, decode_context=20, count=100.0, duration_s=2.0),
)
PLAN = QualityPlan(
    short_sequences=3, short_prompt_tokens=6, long_sequences=2, long_prompt_tokens=40, steps=8, noise_steps=2
)
PROMPTS = tuple(tuple(np.random.default_rng(length).integers(0, 128, length).tolist()) for length in (8, 9, 10, 60))


@pytest.fixture
def files(model: LlamaForCausalLM, tmp_path: Path) -> ModelFiles:
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    return ModelFiles(folder=folder, tokenizer=folder)


def test_a_right_build_keeps_quality_and_shows_its_hits(files: ModelFiles, build: Build) -> None:
    result = measure_end_to_end(
        BubblewrapSandbox(), files, build.path, STEPS, threads=1, seconds=2.0, prompts=PROMPTS, plan=PLAN
    )
    assert result.build_id == build.id
    assert result.positions == 8 * 5
    assert result.kl_divergence < 1e-6
    assert result.greedy_agreement == 1.0
    assert result.greedy_positions > 20
    assert all(hits > 0 for hits in result.hits.values())
    assert set(result.hits) == {kernel.id for kernel in build.manifest.kernels}
    assert set(result.decode_tokens_per_s) == {PathName.EAGER, PathName.BUILD}
    assert result.speedup_interval.low <= result.speedup <= result.speedup_interval.high


def test_a_wrong_kernel_is_seen_in_the_models_output(
    files: ModelFiles, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    wrong = ship(rmsnorm.task, rmsnorm.candidate.source.replace("1e-6", "0.5"), rmsnorm.site)
    build = write_build(tmp_path, "tiny", device, [wrong])
    result = measure_end_to_end(
        BubblewrapSandbox(), files, build.path, STEPS[1:], threads=1, seconds=1.0, prompts=PROMPTS, plan=PLAN
    )
    assert result.kl_divergence > 1e-4
    assert not all(gate.passed for gate in decide_build(result))


def test_a_build_that_crashes_is_named(
    files: ModelFiles, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    source = rmsnorm.candidate.source.replace("double sum = 0;", "double sum = 0; __builtin_trap();")
    build = write_build(tmp_path, "tiny", device, [ship(rmsnorm.task, source, rmsnorm.site)])
    with pytest.raises(ServedProcessEnded, match="the build process"):
        measure_end_to_end(
            BubblewrapSandbox(), files, build.path, STEPS, threads=1, seconds=1.0, prompts=PROMPTS, plan=PLAN
        )
