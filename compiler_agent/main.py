"""The `compiler-agent` command: one sub-command a module in `commands/`."""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from compiler_agent.commands import (
    backup,
    bench,
    builds,
    compiler_report,
    config,
    doctor,
    export,
    gpu_check,
    hot_ops,
    judge,
    keys,
    leaderboard,
    ledger,
    memory,
    metrics,
    models,
    pr,
    problems,
    promote,
    prune,
    rank,
    replay,
    retract,
    run,
    sandbox,
    schedule,
    schedule_create,
    shadow_report,
    status,
    task,
    transcript,
    tune,
    up,
    waiting,
    wins,
    worker,
)
from compiler_agent.configuration import Loaded, apply_file, find_file
from compiler_agent.outcome import ExitCode, progress_console
from compiler_agent.user_faults import as_user_fault

app = typer.Typer(
    help="Kernel autotuning by agents, driven by production traffic: from a trace to a faster serving build.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def options(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option(
            "--config", help="File of settings; else COMPILER_AGENT_CONFIG says which, else ./compiler-agent.toml."
        ),
    ] = None,
) -> None:
    context.obj.configuration = apply_file(find_file(file, os.environ), os.environ)


app.command("run")(run.run)
app.command("replay")(replay.replay)
app.command("hot-ops")(hot_ops.hot_ops)
task.app.command("import")(problems.import_problems)
task.app.command("export")(problems.export_results)
task.app.command("report")(compiler_report.report)
app.add_typer(task.app, name="task")
app.command("tune")(tune.tune)
app.command("judge")(judge.judge)
app.command("bench")(bench.bench)
app.command("waiting")(waiting.waiting)
app.command("wins")(wins.wins)
app.command("prune")(prune.prune)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(leaderboard.app, name="leaderboard")
app.add_typer(ledger.app, name="ledger")
app.command("transcript")(transcript.transcript)
app.add_typer(memory.app, name="memory")
builds.app.command("export")(export.export)
app.add_typer(builds.app, name="builds")
app.add_typer(pr.app, name="pr")
app.command("promote")(promote.promote)
app.command("retract")(retract.retract)
app.command("shadow-report")(shadow_report.shadow_report)
app.add_typer(keys.app, name="keys")
models.app.command("rank")(rank.rank)
app.add_typer(models.app, name="models")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(config.app, name="config")
app.command("up")(up.up)
app.command("metrics")(metrics.metrics)
app.command("status")(status.status)
schedule.app.command("create")(schedule_create.create)
app.add_typer(schedule.app, name="schedule")
app.command("worker")(worker.worker)
app.command("doctor")(doctor.doctor)
app.command("gpu-check")(gpu_check.gpu_check)


def main() -> None:
    signal.signal(signal.SIGTERM, _interrupt)  # a service manager's TERM ends a command as a person's Ctrl-C does
    code = run_command(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: libraries with their own threads (torch, Temporal's core) may not survive interpreter shutdown.
    os._exit(code)


def run_command(arguments: Sequence[str]) -> ExitCode:
    """0 done, 1 not achieved, 2 the user's input or machine is at fault, 3 our own failure."""
    loaded = Loaded()
    try:
        return ExitCode(app(list(arguments), standalone_mode=False, obj=loaded) or ExitCode.DONE)
    except typer.TyperException as error:
        progress_console.print("error:", error.format_message(), highlight=False, soft_wrap=True, markup=False)
        return ExitCode.USER_FAULT
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001  (the last line of defence: it decides whose fault it is)
        fault = as_user_fault(error)
        if fault is None:
            traceback.print_exc()
            return ExitCode.OUR_FAULT
        fault = loaded.configuration.explain(fault)
        progress_console.print("error:", fault, highlight=False, soft_wrap=True, markup=False)
        return ExitCode.USER_FAULT


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
