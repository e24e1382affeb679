"""`compiler-agent run`: a nightly run, from traffic to a gated serving build."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from candidates.ledger.ledger import Ledger
from candidates.run import OpDecision, RunReport, RunRequest
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.counted_traffic import read_counted_traffic
from compiler_agent.choose_agents import choose_agents
from compiler_agent.commands.options import (
    AgentOption,
    ApproveAutomaticallyOption,
    ArchitectureOption,
    AttemptsOption,
    Bfloat16WeightsOption,
    BudgetCallsOption,
    BudgetTokensOption,
    BudgetUsdOption,
    BudgetUsdPerOpOption,
    CompileSecondsOption,
    CountersOption,
    DeviceUsdPerHourOption,
    EndToEndSecondsOption,
    EngineOption,
    HotOpsOption,
    JsonOption,
    LimitOption,
    ModelNameOption,
    ModelOption,
    PaybackDaysOption,
    SandboxOption,
    SearchSecondsOption,
    TraceFormatOption,
    UtilisationOption,
    WorkloadClassOption,
)
from compiler_agent.gpu import target_gpu
from compiler_agent.local_run import perform_run
from compiler_agent.machine import require_machine
from compiler_agent.outcome import ExitCode, print_json, progress_console, result_console
from compiler_agent.report import print_run_report
from compiler_agent.settings import Settings, read_settings
from traces.formats.read import read_trace
from traces.sample import SAMPLE_TRACE
from traces.served_model import DEFAULT_MODEL, open_model


def run(
    trace: Annotated[list[Path] | None, typer.Option(help="Traffic trace; several are merged by arrival.")] = None,
    model: ModelOption = DEFAULT_MODEL,
    workload_class: WorkloadClassOption = None,
    trace_format: TraceFormatOption = None,
    engine: EngineOption = "sglang",
    utilisation: UtilisationOption = 0.8,
    limit: LimitOption = None,
    hot_ops: HotOpsOption = 8,
    search_seconds: SearchSecondsOption = 110.0,
    attempts: AttemptsOption = 24,
    architecture: ArchitectureOption = None,
    counters: CountersOption = None,
    agent: AgentOption = None,
    model_name: ModelNameOption = None,
    budget_usd: BudgetUsdOption = None,
    budget_usd_per_op: BudgetUsdPerOpOption = None,
    budget_tokens: BudgetTokensOption = None,
    budget_calls: BudgetCallsOption = None,
    device_usd_per_hour: DeviceUsdPerHourOption = None,
    payback_days: PaybackDaysOption = 7.0,
    end_to_end_seconds: EndToEndSecondsOption = 75.0,
    compile_seconds: CompileSecondsOption = 85.0,
    bfloat16_weights: Bfloat16WeightsOption = False,
    approve_automatically: ApproveAutomaticallyOption = False,
    sandbox: SandboxOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Performs a nightly run: replays traffic, finds hot ops, searches kernels, ships what wins.

    Example: compiler-agent run --trace requests.jsonl --model ./my-model --search-seconds 600

    Without options: the project's sample traffic on SmolLM2-135M-Instruct. Ctrl-C stops it; the same command goes on.

    With a language model, after a cheap start: --agent search --agent llm --model-name claude --budget-usd 5
    """
    settings = read_settings(sandbox=sandbox)
    chosen = choose_agents(
        settings,
        agent or (),
        model_name or (),
        usd=budget_usd,
        usd_per_op=budget_usd_per_op,
        tokens=budget_tokens,
        calls=budget_calls,
        device_usd_per_hour=device_usd_per_hour,
        payback_days=payback_days,
    )
    paths = tuple(path.absolute() for path in trace or [SAMPLE_TRACE])
    read = read_trace(paths, trace_format, workload_class)
    progress_console.print(
        f"read {read.counts.read} requests ({read.format}): kept {read.counts.kept}, "
        f"dropped {sum(read.counts.dropped.values())} {read.counts.dropped or ''}",
        highlight=False,
    )
    open_model(model, settings.home)
    require_machine(settings)
    ledger = Ledger(settings.ledger_url)
    request = RunRequest.model_validate(
        {
            "traces": tuple(str(path) for path in paths),
            "trace_digest": read.digest,
            "trace_format": trace_format,
            "workload_class": workload_class,
            "model": model,
            "engine": engine,
            "utilisation": utilisation,
            "agents": chosen.agents,
            "models": chosen.models,
            "request_limit": limit,
            "hot_ops": hot_ops,
            "search_s": search_seconds,
            "attempts_per_op": attempts,
            "end_to_end_s": end_to_end_seconds,
            "compile_s": compile_seconds,
            "architectures": tuple(architecture or ()),
            "gpu": target_gpu(settings, ledger, architecture or ()),
            "counters": None if counters is None else str(counters.absolute()),
            "counters_digest": None if counters is None else _digest_of_counters(counters, settings),
            "bfloat16_weights": bfloat16_weights,
            "approve_automatically": approve_automatically,
        }
    )
    return ship(settings, ledger, request, json=json)


def ship(settings: Settings, ledger: Ledger, request: RunRequest, *, json: bool) -> ExitCode:
    """Performs a run that ends with a build and prints its report; NOT_ACHIEVED where no op was shipped."""
    report = perform_run(settings, ledger, request, progress_console)
    assert isinstance(report, RunReport)
    if json:
        print_json(report)
    else:
        print_run_report(report, result_console)
    shipped = any(op.decision is OpDecision.SHIPPED for op in report.hot_ops)
    return ExitCode.DONE if shipped else ExitCode.NOT_ACHIEVED


def _digest_of_counters(counters: Path, settings: Settings) -> str:
    """After reading them once: what is wrong with them is said before the run. Raises CountersUnreadable."""
    read_counted_traffic(counters, BuildStore(settings.home))
    return hashlib.sha256(counters.read_bytes()).hexdigest()
