"""The served model on this device as the replay sees it: a step cost model calibrated on real forward passes."""

import os
import statistics
import time

import torch

from candidates.device import DeviceCeilings
from candidates.record import Record
from candidates.run import ReplayRecord
from traces.model_calls import ModelCall
from traces.replay.cost import StepCostModel
from traces.replay.replay import replay_trace
from traces.replay.settings import EngineName, EngineSettings
from traces.requests import RequestTrace
from traces.served_model import ModelShape, SyntheticCache, forward

PREFILL_TOKENS = 256
REPEATS = 3
KV_SHARE_OF_MEMORY = 0.25


class DeviceModel(Record):
    """Rates that make the roofline model meet a measured prefill and a measured decode step."""

    threads: int
    decode_step_s: float
    """One sequence, empty cache."""
    prefill_s: float
    """PREFILL_TOKENS tokens, empty cache."""
    flops_per_s: float
    bandwidth_bytes_per_s: float
    overhead_s: float


def calibrate(shape: ModelShape, module: torch.nn.Module, ceilings: DeviceCeilings) -> DeviceModel:
    """Times a decode step and a prefill of the real module; the medians of a few, after one that warms up.

    Bandwidth is the ceiling of memory. What a decode step takes beyond reading the weights at that rate is overhead;
    what a prefill takes beyond the overhead is arithmetic.
    """
    decode_s = _seconds(module, ModelCall(batch=1, tokens=1, context=0))
    prefill_s = _seconds(module, ModelCall(batch=1, tokens=PREFILL_TOKENS, context=0))
    bandwidth = ceilings.bytes_per_s(ceilings.read[-1].working_set_bytes)
    overhead_s = max(0.0, decode_s - shape.parameter_bytes / bandwidth)
    flops = shape.linear_flops_per_token * PREFILL_TOKENS
    return DeviceModel(
        threads=ceilings.threads,
        decode_step_s=decode_s,
        prefill_s=prefill_s,
        flops_per_s=flops / max(prefill_s - overhead_s, prefill_s / 2),
        bandwidth_bytes_per_s=bandwidth,
        overhead_s=overhead_s,
    )


def step_cost_model(shape: ModelShape, device: DeviceModel) -> StepCostModel:
    return StepCostModel(
        weight_bytes=shape.parameter_bytes,
        flops_per_token=shape.linear_flops_per_token,
        attention_flops_per_pair=shape.attention_flops_per_token_per_context_token,
        kv_bytes_per_token=shape.kv_bytes_per_token,
        flops_per_s=device.flops_per_s,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s,
        overhead_s=device.overhead_s,
    )


def replay_on_device(
    trace: RequestTrace,
    shape: ModelShape,
    device: DeviceModel,
    *,
    engine: EngineName,
    utilisation: float,
    limit: int | None,
) -> ReplayRecord:
    """The trace through the engine model, as this machine would serve it."""
    replay = replay_trace(
        trace,
        step_cost_model(shape, device),
        engine_settings(engine, shape, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        max_context_tokens=shape.window_tokens,
        utilisation=utilisation,
        limit=limit,
    )
    return ReplayRecord(
        report=replay.report, steps=replay.steps, span_s=replay.report.span_s, covered_share=replay.coverage
    )


def engine_settings(engine: EngineName, shape: ModelShape, device_bytes: int) -> EngineSettings:
    """How an engine would be configured on a CPU device: short chunks, few sequences, a quarter of memory for KV."""
    kv_capacity_tokens = int(device_bytes * KV_SHARE_OF_MEMORY / shape.kv_bytes_per_token)
    return EngineSettings(
        name=engine,
        max_batched_tokens=512,
        max_sequences=16,
        kv_capacity_tokens=max(kv_capacity_tokens, shape.window_tokens),
    )


def _seconds(module: torch.nn.Module, call: ModelCall) -> float:
    cache = SyntheticCache(module, call)
    seconds = []
    for _ in range(1 + REPEATS):
        started = time.perf_counter()
        forward(module, call, cache)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])
