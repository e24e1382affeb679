"""`compiler-agent tune`: a kernel for one task of the ledger."""

from typing import Annotated

import typer

from candidates.exported_op import Obstructed, admit
from candidates.extraction import allow_bfloat16_weights
from candidates.ledger.ledger import Ledger
from candidates.run import TuneReport, TuneRequest
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.counted_traffic import read_counted_traffic
from candidates.task import KernelTask
from compiler_agent.choose_agents import choose_agents
from compiler_agent.commands.options import (
    AgentOption,
    ArchitectureOption,
    Bfloat16WeightsOption,
    BudgetCallsOption,
    BudgetTokensOption,
    BudgetUsdOption,
    CountersOption,
    JsonOption,
    ModelNameOption,
    SandboxOption,
)
from compiler_agent.commands.task import find_task
from compiler_agent.gpu import target_gpu
from compiler_agent.local_run import perform_run
from compiler_agent.machine import require_machine
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console, result_console
from compiler_agent.report import print_tune_report
from compiler_agent.settings import read_settings


def tune(
    task: Annotated[str, typer.Argument(help="Id of a task, or the start of it.")],
    agent: AgentOption = None,
    model_name: ModelNameOption = None,
    seconds: Annotated[float, typer.Option(min=1.0, max=1e7, help="Search time, waiting for models included.")] = 60.0,
    attempts: Annotated[int, typer.Option(min=1, help="Candidates at most.")] = 24,
    architecture: ArchitectureOption = None,
    counters: CountersOption = None,
    bfloat16_weights: Bfloat16WeightsOption = False,
    budget_usd: BudgetUsdOption = None,
    budget_tokens: BudgetTokensOption = None,
    budget_calls: BudgetCallsOption = None,
    sandbox: SandboxOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Searches a kernel for one task, races the best, and confirms it if it wins.

    Example: compiler-agent tune 3f2a --agent search --agent llm --model-name claude --budget-usd 2 --seconds 600

    Ctrl-C stops it; the same command goes on. `compiler-agent task list` shows the tasks.
    """
    settings = read_settings(sandbox=sandbox)
    chosen = choose_agents(
        settings, agent or (), model_name or (), usd=budget_usd, tokens=budget_tokens, calls=budget_calls
    )
    ledger = Ledger(settings.ledger_url)
    found = find_task(ledger, task)
    require_machine(settings)
    gpu = target_gpu(settings, ledger, architecture or ())
    if counters is not None:
        found = read_counted_traffic(counters, BuildStore(settings.home)).applied_to(found)
    if architecture:
        found = found.aimed_at(tuple(architecture), gpu)
    if bfloat16_weights:
        found = _with_bfloat16_weights(found)
    ledger.put_task(found)
    request = TuneRequest(
        task_id=found.id,
        op=found.op,
        agents=chosen.agents,
        models=chosen.models,
        search_s=seconds,
        attempts=attempts,
        gpu=gpu,
    )
    report = perform_run(settings, ledger, request, progress_console)
    assert isinstance(report, TuneReport)
    if json:
        print_json(report)
    else:
        print_tune_report(report, result_console)
    return ExitCode.DONE if report.decision == "won" else ExitCode.NOT_ACHIEVED


def _with_bfloat16_weights(task: KernelTask) -> KernelTask:
    """The variant of the task with an error bound of its own, which makes it another task."""
    allowed = allow_bfloat16_weights(task)
    if allowed is None:
        raise UserFault(f"task {task.id[:12]} has no float32 weights to round: leave out --bfloat16-weights")
    try:
        return admit(allowed)
    except Obstructed as obstructed:
        raise UserFault(f"task {task.id[:12]} cannot have weights in bfloat16: {obstructed}") from obstructed
