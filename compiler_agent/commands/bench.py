"""`compiler-agent bench`: is this kernel faster, and than what?"""

from typing import Annotated

import typer
from rich.table import Table

from candidates.measurement import Decision, Measurement
from candidates.verdict import Rejected, is_native
from compiler_agent.commands.judge import (
    CandidateArgument,
    find_candidate,
    print_verdict,
    record_evaluation,
    verdict_document,
)
from compiler_agent.commands.options import JsonOption, SandboxOption
from compiler_agent.commands.task import find_task
from compiler_agent.machine import require_machine
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.settings import read_settings
from compiler_agent.wiring import open_workbench


def bench(
    task: Annotated[str, typer.Argument(help="Id of a task, or the start of it.")],
    candidate: CandidateArgument,
    confirm: Annotated[bool, typer.Option(help="Confirm a win in 7 fresh processes.")] = True,
    sandbox: SandboxOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Judges a kernel, then races it against the best of its baselines in pairs.

    Example: compiler-agent bench 3f2a kernel.cpp --no-confirm
    """
    settings = read_settings(sandbox=sandbox)
    require_machine(settings)
    with open_workbench(settings) as workbench:
        found = find_task(workbench.ledger, task)
        parsed = find_candidate(workbench.ledger, candidate)
        built = workbench.builder.build(found, parsed)
        verdict = built if isinstance(built, Rejected) else workbench.judge.judge(found, parsed, built)
        measured: Measurement | Rejected | None = None
        benchmark = workbench.benchmark(found)
        if benchmark is not None and is_native(verdict) and isinstance(built, bytes):
            measured = benchmark.race(found, parsed, built)
            if confirm and isinstance(measured, Measurement) and measured.decision is Decision.WIN:
                measured = benchmark.confirm(found, parsed, built)
        if isinstance(measured, Measurement):
            record_evaluation(workbench.ledger, found, parsed, verdict, measured)
        else:
            record_evaluation(workbench.ledger, found, parsed, measured or verdict)
    if not isinstance(measured, Measurement):
        rejected = verdict if measured is None else measured
        if json:
            print_json({"task": found.id, "candidate": parsed.id, "verdict": verdict_document(rejected)})
        else:
            print_verdict(rejected)
        return ExitCode.NOT_ACHIEVED
    if json:
        print_json(measurement_document(measured) | {"task": found.id, "candidate": parsed.id})
    else:
        print_measurement(measured)
    return ExitCode.DONE if measured.decision is Decision.WIN else ExitCode.NOT_ACHIEVED


def measurement_document(measured: Measurement) -> dict[str, object]:
    return measured.model_dump(mode="json")


def print_measurement(measured: Measurement) -> None:
    names = sorted({name for workload in measured.workloads for name in workload.baselines_us})
    table = Table(
        "workload", "candidate us", "kernel us", *(f"{name} us" for name in names), "speedup", "interval", "of floor",
        "decision", header_style="bold",
    )  # fmt: skip
    for workload in measured.workloads:
        table.add_row(
            workload.workload,
            f"{workload.candidate_us:.2f}",
            f"{workload.kernel_only_us:.2f}",
            *(f"{workload.baselines_us[name]:.2f}" if name in workload.baselines_us else "" for name in names),
            f"{workload.speedup_over_best:.2f}x",
            f"{workload.interval.low:.2f}-{workload.interval.high:.2f}",
            f"{workload.share_of_floor:.0%}",
            workload.decision.value,
        )
    result_console.print(table)
    result_console.print(
        f"traffic-weighted {measured.traffic_weighted_speedup:.2f}x "
        f"({measured.interval.low:.2f}-{measured.interval.high:.2f}): {measured.decision.value} at the "
        f"{measured.stage.value} stage, {measured.threads} threads",
        highlight=False,
    )
