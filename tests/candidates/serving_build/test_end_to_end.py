"""The served model with and without a build, through the real sandbox."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nights import FIGURES
from transformers import LlamaForCausalLM

from candidates.device import DeviceFingerprint
from candidates.promotion import LEAST_KL, EndToEnd, PathName, decide_build
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.end_to_end import measure_end_to_end
from candidates.serving_build.quality import Quality, QualityPlan, kl_divergence, measure_quality, sample_tokens
from candidates.serving_build.served_process import ModelFiles, ProcessSpec, ServedProcess, ServedProcessEnded
from candidates.serving_build.speed import Passes, Stratum, choose_strata, ratio, speedup
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from traces.model_calls import ModelCall
from traces.replay.step import EngineStep

STEPS = (
    EngineStep(prefill_tokens=24, prefill_context=8, decode_batch=3, decode_context=40, count=10.0, duration_s=1.0),
    EngineStep(prefill_tokens=0, prefill_context=0, decode_batch=1, decode_context=20, count=100.0, duration_s=2.0),
)
PLAN = QualityPlan(
    short_sequences=3,
    short_prompt_tokens=6,
    long_sequences=2,
    long_prompt_tokens=40,
    steps=8,
    noise_steps=2,
    prompt_steps=2,
)
PROMPTS = tuple(tuple(np.random.default_rng(length).integers(0, 128, length).tolist()) for length in (8, 9, 10, 60))


@pytest.fixture
def files(model: LlamaForCausalLM, tmp_path: Path) -> ModelFiles:
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    return ModelFiles(folder=folder, tokenizer=folder)


@pytest.mark.slow
def test_a_right_build_keeps_quality_and_is_paired_with_eager_and_the_live_one(
    files: ModelFiles, build: Build, tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel
) -> None:
    live = write_build(tmp_path, "tiny", device, [rmsnorm])
    result = measure_end_to_end(
        BubblewrapSandbox(),
        files,
        build.path,
        STEPS,
        threads=1,
        seconds=2.0,
        current=live.path,
        prompts=PROMPTS,
        plan=PLAN,
    )
    assert result.build_id == build.id
    assert result.current_build == live.id
    assert result.over_current is not None
    assert "faster than the live build" in {gate.name for gate in decide_build(result)}
    assert result.positions == 8 * 5
    assert result.kl_divergence < 1e-6
    assert result.greedy_agreement == 1.0
    assert result.greedy_positions > 20
    assert all(hits > 0 for hits in result.hits.values())
    assert set(result.hits) == {kernel.id for kernel in build.manifest.kernels}
    assert result.logprob_drift < 1e-5
    assert result.row_split_difference < 1e-3
    paths = {PathName.EAGER, PathName.BUILD, PathName.CURRENT}
    assert set(result.peak_memory_bytes) == set(result.decode_tokens_per_s) == paths
    assert result.speedup_interval.low <= result.speedup <= result.speedup_interval.high


ROWS_LEAK = """
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t batch, int64_t tokens) {
  for (int64_t row = 0; row < batch * tokens; ++row) {
    double sum = 0;
    for (int i = 0; i < 64; ++i) sum += double(x[row * 64 + i]) * x[row * 64 + i];
    const float scale = (1.0 + 0.01 * (batch > 1)) / std::sqrt(sum / 64 + 1e-6);
    for (int i = 0; i < 64; ++i) y[row * 64 + i] = x[row * 64 + i] * scale * weight[i];
  }
}
"""


def quality_of(files: ModelFiles, build: Build) -> Quality:
    def open_process(folder: Path | None) -> ServedProcess:
        spec = ProcessSpec(name="model", build=folder, threads=1, max_ids=1024, max_batch=3)
        return ServedProcess(BubblewrapSandbox(), files, spec, wall_s=60.0)

    with open_process(None) as eager, open_process(build.path) as patched:
        return measure_quality(eager, patched, PLAN, PROMPTS, np.random.default_rng(0))


def test_a_wrong_kernel_has_another_distribution(
    files: ModelFiles, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    wrong = ship(rmsnorm.task, rmsnorm.candidate.source.replace("1e-6", "0.5"), rmsnorm.site)
    quality = quality_of(files, write_build(tmp_path, "tiny", device, [wrong]))
    assert quality.kl_divergence > LEAST_KL
    figures = FIGURES | {"build_id": "b", "hits": {"k": 1}, "kl_divergence": quality.kl_divergence}
    failed = [gate.name for gate in decide_build(EndToEnd.model_validate(figures)) if not gate.passed]
    assert failed == ["KL divergence"]


def test_rows_that_change_with_the_rows_beside_them_are_seen(
    files: ModelFiles, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    quality = quality_of(files, write_build(tmp_path, "tiny", device, [ship(rmsnorm.task, ROWS_LEAK, rmsnorm.site)]))
    assert quality.row_split_difference > 10 * max(quality.noise, 1e-3)


@pytest.mark.slow
def test_a_wrong_kernel_is_seen_in_the_models_output(
    files: ModelFiles, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    wrong = ship(rmsnorm.task, rmsnorm.candidate.source.replace("1e-6", "0.5"), rmsnorm.site)
    build = write_build(tmp_path, "tiny", device, [wrong])
    with pytest.raises(ServedProcessEnded, match="the build process answered a timed step with other logits"):
        measure_end_to_end(
            BubblewrapSandbox(), files, build.path, STEPS[1:], threads=1, seconds=1.0, prompts=PROMPTS, plan=PLAN
        )


def test_a_build_that_crashes_is_named(
    files: ModelFiles, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    source = rmsnorm.candidate.source.replace("double sum = 0;", "double sum = 0; __builtin_trap();")
    build = write_build(tmp_path, "tiny", device, [ship(rmsnorm.task, source, rmsnorm.site)])
    with pytest.raises(ServedProcessEnded, match="the build process"):
        measure_end_to_end(
            BubblewrapSandbox(), files, build.path, STEPS, threads=1, seconds=1.0, prompts=PROMPTS, plan=PLAN
        )


def passes_of(eager_ns: list[float], build_ns: list[float], passes: float = 1.0, tokens: int = 1) -> Passes:
    stratum = Stratum(call=ModelCall(batch=1, tokens=tokens, context=8), passes=passes, full_tokens=tokens)
    return Passes(stratum=stratum, ns={PathName.EAGER: np.array(eager_ns), PathName.BUILD: np.array(build_ns)})


def test_strata_are_weighted_by_their_share_of_eagers_time() -> None:
    fast = passes_of([10.0] * 9, [5.0] * 9, passes=30.0)
    slow = passes_of([700.0] * 9, [700.0] * 9, passes=1.0, tokens=64)
    result = speedup([[fast, slow]], PathName.EAGER)
    assert result.value == pytest.approx(1000 / 850)
    assert result.interval.low == pytest.approx(result.value)


@given(
    factors=st.lists(st.floats(0.8, 1.25), min_size=5, max_size=40),
    true_ratio=st.floats(0.5, 4.0),
)
def test_drift_that_meets_both_sides_cancels(factors: list[float], true_ratio: float) -> None:
    drift = np.array(factors)
    pairs = passes_of((drift * 1e6 * true_ratio).tolist(), (drift * 1e6).tolist())
    result = speedup([[pairs]], PathName.EAGER)
    assert ratio(pairs, PathName.EAGER) == pytest.approx(true_ratio)
    assert result.interval.low == pytest.approx(true_ratio)
    assert result.interval.high == pytest.approx(true_ratio)


def test_the_interval_is_the_range_over_fresh_processes() -> None:
    rounds = [[passes_of([10.0 * factor] * 5, [10.0] * 5)] for factor in (0.98, 1.30, 1.01, 1.02, 0.99)]
    result = speedup(rounds, PathName.EAGER)
    assert result.value == pytest.approx(1.01)
    assert result.interval == pytest.approx((0.98, 1.30))


def test_strata_stand_for_all_passes_of_their_kind() -> None:
    steps = [
        EngineStep(
            prefill_tokens=0,
            prefill_context=0,
            decode_batch=batch,
            decode_context=64,
            count=100.0 / batch,
            duration_s=1.0,
        )
        for batch in range(1, 11)
    ]
    strata = choose_strata(steps)
    decode = [stratum for stratum in strata if stratum.is_decode]
    assert sum(stratum.passes for stratum in decode) > 100
    assert [stratum.passes for stratum in strata if not stratum.is_decode] == [0.0]


@given(st.integers(0, 2**32 - 1))
def test_kl_divergence_is_that_of_the_distributions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    eager, build = rng.normal(0, 3, (2, 4, 50)).astype(np.float32)
    p, q = (np.exp(logits.astype(np.float64)) for logits in (eager, build))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    assert kl_divergence(eager, build) == pytest.approx((p * np.log(p / q)).sum(-1), rel=1e-9)
    assert kl_divergence(eager, eager) == pytest.approx(np.zeros(4), abs=1e-12)
    assert kl_divergence(eager + np.float32(100), eager) == pytest.approx(np.zeros(4), abs=1e-6)


def test_tokens_are_sampled_by_their_probability() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25, 1e-30]], dtype=np.float32)).repeat(4000, axis=0)
    counts = np.bincount(sample_tokens(logits, np.random.default_rng(0)), minlength=4)
    assert counts[3] == 0
    assert counts[:3] / 4000 == pytest.approx([0.5, 0.25, 0.25], abs=0.05)
