"""End to end: the served model without a build, with it, and with the live one, each in a sandboxed process, over the
traffic's steps."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from pydantic import Field, ValidationError

from candidates.promotion import EndToEnd, PathName
from candidates.record import Record
from candidates.serving_build.build import read_build
from candidates.serving_build.counters import KernelCalls
from candidates.serving_build.prompts import PROMPTS
from candidates.serving_build.quality import CHUNK_TOKENS, QualityPlan, measure_quality
from candidates.serving_build.served_process import ModelFiles, ProcessSpec, ServedProcess
from candidates.serving_build.speed import (
    Passes,
    Speedup,
    Stratum,
    choose_strata,
    fit_strata,
    ratio,
    speedup,
    time_alone,
    time_passes,
)
from kernel_sandbox.sandbox import Sandbox
from traces.replay.step import EngineStep

FRESH_ROUNDS = 5
"""Of processes: without a difference, all five lie on one side of 1.0 by chance in 1 of 32 builds."""
LEAST_SPEED_SHARE = 0.4
"""Of the time, for speed, however long the quality took."""
GRACE_S = 600.0
"""Beyond its time a process is stuck."""


def measure_end_to_end(
    sandbox: Sandbox,
    model: ModelFiles,
    build_folder: Path,
    steps: Sequence[EngineStep],
    *,
    threads: int,
    seconds: float,
    compile_seconds: float = 0.0,
    current: Path | None = None,
    prompts: Sequence[Sequence[int]] | None = None,
    plan: QualityPlan | None = None,
    seed: int = 0,
) -> EndToEnd:
    """Quality first, then speed for what is left of `seconds`; `compile_seconds` more for the torch.compiled model.
    `current` is the folder of the live build, if there is another than this.

    `prompts` are token ids; by default the project's own texts in the model's tokens. Raises ServedProcessEnded when
    a process crashes or leaves nonsense (the build is at fault if it is the patched one), BuildRefused for a changed
    build, ValueError for prompts that are too short.
    """
    started_s = time.monotonic()
    build = read_build(build_folder)
    plan = plan or QualityPlan()
    strata = choose_strata(steps)
    rng = np.random.default_rng(seed)
    max_batch = max(plan.short_sequences, plan.long_sequences, *(stratum.call.batch for stratum in strata))
    quality_ids = max(plan.short_sequences, 1) * max(CHUNK_TOKENS, plan.short_prompt_tokens)
    max_ids = max(quality_ids, *(stratum.call.batch * stratum.call.tokens for stratum in strata))

    def open_process(name: PathName) -> ServedProcess:
        spec = ProcessSpec(
            name=name,
            build={PathName.BUILD: build_folder, PathName.CURRENT: current}.get(name),
            threads=threads,
            max_ids=max_ids,
            max_batch=max_batch,
            is_compiled=name is PathName.COMPILE,
        )
        return ServedProcess(sandbox, model, spec, wall_s=seconds + compile_seconds + GRACE_S)

    paths = [PathName.EAGER, PathName.BUILD, *([] if current is None else [PathName.CURRENT])]

    @contextmanager
    def open_sides() -> Iterator[dict[PathName, ServedProcess]]:
        with ExitStack() as stack:
            yield {path: stack.enter_context(open_process(path)) for path in paths}

    rounds: list[tuple[Passes, ...]] = []
    with open_sides() as sides:
        eager, patched = sides[PathName.EAGER], sides[PathName.BUILD]
        if prompts is None:
            prompts = eager.ask("tokenize", texts=list(PROMPTS))["ids"]
        quality = measure_quality(eager, patched, plan, prompts, rng)
        round_s = max(seconds - (time.monotonic() - started_s), LEAST_SPEED_SHARE * seconds) / FRESH_ROUNDS
        timed = fit_strata(eager, strata, model.vocabulary, round_s, rng)
        rounds.append(time_passes(sides, timed, model.vocabulary, round_s, rng))
        reports = {path: _read_report(process) for path, process in sides.items()}
    for _ in range(1, FRESH_ROUNDS):
        with open_sides() as sides:
            rounds.append(time_passes(sides, timed, model.vocabulary, round_s, rng))
    seconds_by_path = _seconds_by_path(rounds)
    report = reports[PathName.BUILD]
    notes = _notes(timed, report)
    if compile_seconds > 0:
        with open_process(PathName.COMPILE) as compiled:
            medians_ns = time_alone(compiled, timed, model.vocabulary, compile_seconds, rng)
        seconds_by_path[PathName.COMPILE] = {stratum: ns * 1e-9 for stratum, ns in medians_ns.items()}
        if len(medians_ns) < len(timed):
            notes += (f"torch.compile had {len(medians_ns)} of {len(timed)} steps ready in {compile_seconds:.0f} s",)
    decodes = [stratum for stratum in timed if stratum.is_decode]
    prefills = [stratum for stratum in timed if not stratum.is_decode]
    in_traffic = [stratum for stratum in timed if stratum.passes > 0] or timed

    def over(path: PathName, chosen: Sequence[Stratum]) -> Speedup:
        return speedup([[passes for passes in timed if passes.stratum in chosen] for timed in rounds], path)

    every, decode, prefill = (over(PathName.EAGER, chosen) for chosen in (in_traffic, decodes, prefills))
    ids = [kernel.id for kernel in build.manifest.kernels]
    return EndToEnd(
        build_id=build.id,
        threads=threads,
        decode_tokens_per_s={path: _tokens_per_s(times) for path, times in _of_kind(seconds_by_path, decodes)},
        prefill_tokens_per_s={path: _tokens_per_s(times) for path, times in _of_kind(seconds_by_path, prefills)},
        ttft_s={path: _mean_pass_s(times) for path, times in _of_kind(seconds_by_path, prefills)},
        speedup=every.value,
        speedup_interval=every.interval,
        decode_speedup=decode.value,
        decode_speedup_interval=decode.interval,
        prefill_speedup=prefill.value,
        prefill_speedup_interval=prefill.interval,
        current_build=None if current is None else read_build(current).id,
        over_current=None if current is None else over(PathName.CURRENT, in_traffic).interval,
        peak_memory_bytes={path: each.peak_bytes for path, each in reports.items()},
        kl_divergence=quality.kl_divergence,
        kl_of_long=quality.kl_of_long,
        kl_noise=quality.kl_noise,
        logprob_drift=quality.logprob_drift,
        logit_noise=quality.noise,
        row_split_difference=quality.row_split_difference,
        positions=quality.positions,
        greedy_agreement=quality.greedy_agreement,
        greedy_positions=quality.greedy_positions,
        hits={kernel_id: report.calls(kernel_id).hits for kernel_id in ids},
        misses={kernel_id: report.calls(kernel_id).misses for kernel_id in ids},
        notes=notes,
        wall_s=time.monotonic() - started_s,
    )


class RuntimeReport(Record):
    """What a process says of itself, and its runtime, where a build is installed."""

    peak_bytes: int = Field(ge=0)
    counters: dict[str, KernelCalls]
    obstacle: str | None
    failures: dict[str, str]

    def calls(self, kernel_id: str) -> KernelCalls:
        return self.counters.get(kernel_id, KernelCalls())


def _read_report(process: ServedProcess) -> RuntimeReport:
    process.thaw()
    try:
        return RuntimeReport.model_validate(process.ask("report"))
    except ValidationError as error:
        raise process.ended(f"reported nonsense: {error.errors()[0]['msg']}") from error


def _seconds_by_path(rounds: Sequence[Sequence[Passes]]) -> dict[PathName, dict[Stratum, float]]:
    """Medians over rounds; the build's time is eager's over the paired ratio, all others follow from theirs."""
    seconds: dict[PathName, dict[Stratum, float]] = {path: {} for path in rounds[0][0].ns}
    for of_stratum in zip(*rounds, strict=True):
        stratum = of_stratum[0].stratum

        def over(path: PathName, timed: Sequence[Passes] = of_stratum) -> float:
            return float(np.median([ratio(passes, path) for passes in timed]))

        eager_s = float(np.median([np.median(passes.ns[PathName.EAGER]) for passes in of_stratum])) * 1e-9
        build_s = eager_s / over(PathName.EAGER)
        for path, by_stratum in seconds.items():
            by_stratum[stratum] = build_s if path is PathName.BUILD else build_s * over(path)
    return seconds


def _of_kind(
    seconds_by_path: Mapping[PathName, Mapping[Stratum, float]], strata: Sequence[Stratum]
) -> Iterator[tuple[PathName, dict[Stratum, float]]]:
    """Every path's seconds on the chosen strata.

    Where the compiled model was late with some of them, it gets eager's time there over its own speedup on the others,
    each stratum weighted by its share of eager's time; with none of them it has no figure.
    """
    eager = seconds_by_path[PathName.EAGER]
    weights = _weights(strata)
    for path, times in seconds_by_path.items():
        timed = [stratum for stratum in strata if stratum in times]
        if timed:
            eager_s, own_s = (sum(t[s] * s.scale * weights[s] for s in timed) for t in (eager, times))
            yield path, {stratum: times.get(stratum, eager[stratum] * own_s / eager_s) for stratum in strata}


def _tokens_per_s(times: Mapping[Stratum, float]) -> float:
    weights = _weights(times)
    tokens = sum(stratum.call.batch * stratum.full_tokens * weights[stratum] for stratum in times)
    return tokens / sum(seconds * stratum.scale * weights[stratum] for stratum, seconds in times.items())


def _mean_pass_s(times: Mapping[Stratum, float]) -> float:
    """Of prefills: time to first token of a request, alone on the machine, whose prompt is one step of the traffic."""
    weights = _weights(times)
    return sum(seconds * stratum.scale * weights[stratum] for stratum, seconds in times.items()) / sum(weights.values())


def _weights(times: Iterable[Stratum]) -> dict[Stratum, float]:
    """Passes of each stratum; a kind that the traffic does not have counts each once."""
    passes = {stratum: stratum.passes for stratum in times}
    return passes if any(passes.values()) else dict.fromkeys(passes, 1.0)


def _notes(strata: Sequence[Stratum], report: RuntimeReport) -> tuple[str, ...]:
    shortened = [
        f"prefill of {stratum.full_tokens} tokens at context {stratum.call.context} measured at {stratum.call.tokens}"
        for stratum in strata
        if stratum.scale > 1
    ]
    failures = [f"not installed: {text}" for text in report.failures.values()]
    failures += [
        f"switched off: {calls.op}: {calls.switched_off}"
        for calls in report.counters.values()
        if calls.switched_off is not None
    ]
    obstacle = [] if report.obstacle is None else [f"nothing was installed: {report.obstacle}"]
    return (*shortened, *failures, *obstacle)
