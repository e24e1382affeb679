"""`compiler-agent hot-ops`: what a traffic trace makes hot on this device, and what could be won."""

import functools
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from candidates.ceilings import fingerprint_device
from candidates.device_model import replay_on_device
from candidates.ledger.ledger import Ledger
from candidates.run import Ranking
from candidates.survey import survey_hot_ops
from compiler_agent.commands.options import (
    EngineOption,
    JsonOption,
    LimitOption,
    ModelOption,
    TraceFormatOption,
    UtilisationOption,
    WorkloadClassOption,
)
from compiler_agent.device import known_ceilings, known_device_model
from compiler_agent.machine import require_machine
from compiler_agent.outcome import ExitCode, print_json, progress_console, result_console
from compiler_agent.settings import read_settings
from traces.formats.read import read_trace
from traces.served_model import DEFAULT_MODEL, open_model


def hot_ops(
    trace: Annotated[list[Path], typer.Argument(help="Traffic trace; several are merged by arrival.")],
    model: ModelOption = DEFAULT_MODEL,
    engine: EngineOption = "sglang",
    utilisation: UtilisationOption = 0.8,
    workload_class: WorkloadClassOption = None,
    trace_format: TraceFormatOption = None,
    limit: LimitOption = None,
    workloads: Annotated[int, typer.Option(min=1, max=16, help="Workloads that a task keeps.")] = 16,
    json: JsonOption = False,
) -> ExitCode:
    """Replays a trace, times every op site of the model, and ranks by the time that a perfect kernel would give back.

    Example: compiler-agent hot-ops requests.jsonl --limit 500

    The tasks that it makes stay in the ledger: `compiler-agent task list`.
    """
    settings = read_settings()
    read = read_trace(trace, trace_format, workload_class)
    served = open_model(model, settings.home)
    require_machine(settings)
    ledger = Ledger(settings.ledger_url)
    device = known_device_model(settings, served, progress_console)
    replayed = replay_on_device(read, served.shape, device, engine=engine, utilisation=utilisation, limit=limit)
    ranking = survey_hot_ops(
        served,
        replayed,
        device_id=fingerprint_device().id,
        architectures=(),
        gpu=None,
        keep=workloads,
        ceilings_of=functools.partial(known_ceilings, settings, ledger),
        put_task=ledger.put_task,
        tell=lambda message: progress_console.print(message, highlight=False),
    )
    if json:
        print_json(
            {
                "coverage": ranking.coverage,
                "hot_ops": [op.model_dump(mode="json") for op in ranking.hot_ops],
                "rank_correlation": ranking.rank_correlation,
                "unmatched": ranking.unmatched,
            }
        )
    else:
        _print(ranking)
    return ExitCode.DONE


def _print(ranking: Ranking) -> None:
    classes = sorted({name for op in ranking.hot_ops for name in op.share_by_class})
    table = Table("op", "level", "of time", *classes, "now us", "floor us", "to win", "task", header_style="bold")
    for op in ranking.hot_ops:
        table.add_row(
            op.op,
            op.level.value,
            f"{op.share_of_time:.1%}",
            *(f"{op.share_by_class.get(name, 0.0):.1%}" for name in classes),
            f"{op.time_us:.1f}",
            f"{op.floor_us:.1f}" if op.task_id is not None else "",
            f"{op.recoverable_share:.1%}",
            op.task_id[:12] if op.task_id is not None else f"none: {op.obstacle}",
        )
    result_console.print(table)
    result_console.print(f"coverage: {ranking.coverage:.1%} of device time has a known op and shape", highlight=False)
    for pair, correlation in ranking.rank_correlation.items():
        result_console.print(f"rank correlation {pair}: {correlation:.2f}", highlight=False)
    for reason, calls in ranking.unmatched.items():
        result_console.print(f"unmatched: {calls} calls/h: {reason}", highlight=False, markup=False)
