"""`compiler-agent replay`: a traffic trace through a model of a serving engine."""

from pathlib import Path
from typing import Annotated

import typer

from candidates.device_model import replay_on_device
from compiler_agent.commands.options import (
    EngineOption,
    JsonOption,
    LimitOption,
    ModelOption,
    TraceFormatOption,
    UtilisationOption,
    WorkloadClassOption,
)
from compiler_agent.device import known_device_model
from compiler_agent.outcome import ExitCode, print_json, progress_console, result_console
from compiler_agent.settings import read_settings
from traces.formats.read import read_trace
from traces.replay.report import Distribution, ReplayReport
from traces.served_model import DEFAULT_MODEL, open_model


def replay(
    trace: Annotated[list[Path], typer.Argument(help="Traffic trace; several are merged by arrival.")],
    model: ModelOption = DEFAULT_MODEL,
    engine: EngineOption = "sglang",
    utilisation: UtilisationOption = 0.8,
    workload_class: WorkloadClassOption = None,
    trace_format: TraceFormatOption = None,
    limit: LimitOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Replays a trace through continuous batching, chunked prefill and a prefix cache; prints how users fared.

    Example: compiler-agent replay requests.jsonl --engine vllm --utilisation 0.6
    """
    settings = read_settings()
    read = read_trace(trace, trace_format, workload_class)
    served = open_model(model, settings.home)
    device = known_device_model(settings, served, progress_console)
    replayed = replay_on_device(read, served.shape, device, engine=engine, utilisation=utilisation, limit=limit)
    if json:
        print_json(replayed.report)
        return ExitCode.DONE
    print_replay(replayed.report)
    result_console.print(
        f"{len(replayed.steps)} kinds of steps stand for {replayed.covered_share:.1%} of the device's time",
        highlight=False,
    )
    return ExitCode.DONE


def print_replay(report: ReplayReport) -> None:
    requests = report.requests
    lines = [
        f"requests: {requests.read} read, {requests.kept} kept, {sum(requests.dropped.values())} dropped "
        f"{requests.dropped or ''}, {requests.truncated} cut to {report.max_context_tokens} tokens",
        f"engine {report.engine.name}, utilisation {report.utilisation:.2f}, arrivals x {report.arrival_scale:.3g}",
        f"prefix hit rate {report.prefix_hit_rate:.1%}"
        if report.has_prefix_identity
        else "no prefix identity in trace",
        f"throughput {report.throughput_tokens_per_s:.1f} tokens/s, goodput {report.goodput_tokens_per_s:.1f} tokens/s",
        _spread("TTFT", report.ttft_s),
        _spread("TPOT", report.tpot_s),
        _spread("latency", report.latency_s),
        f"{report.steps} steps of {report.distinct_steps} kinds, replayed in {report.wall_s:.1f} s",
    ]
    result_console.print("\n".join(lines), highlight=False)


def _spread(name: str, spread: Distribution | None) -> str:
    if spread is None:
        return f"{name}: none"
    return f"{name}: mean {spread.mean:.3f} s, p50 {spread.p50:.3f}, p90 {spread.p90:.3f}, p99 {spread.p99:.3f}"
