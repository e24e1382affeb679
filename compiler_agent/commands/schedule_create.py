"""`compiler-agent schedule create`: what a schedule's nights are asked for."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from candidates.ceilings import fingerprint_device
from candidates.ledger.ledger import Ledger
from candidates.ledger.nights import Nights
from candidates.nightly import NightlySchedule
from candidates.run import RunRequest
from compiler_agent.choose_agents import choose_agents
from compiler_agent.commands.options import (
    AgentOption,
    ApproveAutomaticallyOption,
    ArchitectureOption,
    AttemptsOption,
    BudgetCallsOption,
    BudgetTokensOption,
    BudgetUsdOption,
    BudgetUsdPerOpOption,
    CompileSecondsOption,
    DeviceUsdPerHourOption,
    EndToEndSecondsOption,
    EngineOption,
    HotOpsOption,
    JsonOption,
    LimitOption,
    ModelNameOption,
    ModelOption,
    PaybackDaysOption,
    SearchSecondsOption,
    TraceFormatOption,
    UtilisationOption,
    WorkloadClassOption,
)
from compiler_agent.gpu import target_gpu
from compiler_agent.outcome import ExitCode, UserFault, progress_console
from compiler_agent.schedule_report import print_schedule
from compiler_agent.schedules import with_schedules
from compiler_agent.settings import read_settings
from traces.served_model import DEFAULT_MODEL, open_model
from traces.sources.fsspec_source import FsspecSource

CronOption = Annotated[str, typer.Option(help="Minute, hour, day, month, day of the week: '0 2 * * *'.")]
TimeZoneOption = Annotated[str, typer.Option(help="Of the cron expression: Europe/Berlin.")]
JitterOption = Annotated[float, typer.Option(min=0.0, max=1440.0, help="Begin by chance up to so much later.")]
CatchUpOption = Annotated[
    float,
    typer.Option(
        min=0.2, max=10080.0, help="A night that could not begin for so long, the server being away, is left out."
    ),
]


def create(
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes.")],
    cron: CronOption,
    source: Annotated[
        str,
        typer.Option(
            help="What production writes: a file, a folder of rotating files, a pattern, or a URL such as "
            "s3://bucket/prefix/."
        ),
    ],
    time_zone: TimeZoneOption = "UTC",
    jitter_minutes: JitterOption = 0.0,
    catch_up_minutes: CatchUpOption = 60.0,
    fewest_requests: Annotated[int, typer.Option(min=1, help="With fewer new ones a night is skipped.")] = 100,
    look_back_days: Annotated[
        float | None, typer.Option(min=0.01, max=36500, help="Pass over files that were last written earlier.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Id of the CPU whose worker does it, as the ledger knows it; else this one.")
    ] = None,
    counters: Annotated[
        Path | None, typer.Option(help="The folder where processes that serve the live build leave what they counted.")
    ] = None,
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
    approve_automatically: ApproveAutomaticallyOption = False,
    json: JsonOption = False,
) -> ExitCode:
    """Makes a schedule. Budgets are each night's.

    Example: compiler-agent schedule create chat --cron "0 2 * * *" --time-zone Europe/Berlin --source /var/log/serving
    """
    settings = read_settings()
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
    traffic = FsspecSource(source)
    files = traffic.list_files()
    open_model(model, settings.home)
    ledger = Ledger(settings.ledger_url)
    template = RunRequest(
        traces=(),
        trace_digest="",
        trace_format=trace_format,
        workload_class=workload_class,
        model=model if model == DEFAULT_MODEL else str(Path(model).expanduser().absolute()),
        engine=engine,
        utilisation=utilisation,
        agents=chosen.agents,
        models=chosen.models,
        request_limit=limit,
        hot_ops=hot_ops,
        search_s=search_seconds,
        attempts_per_op=attempts,
        end_to_end_s=end_to_end_seconds,
        compile_s=compile_seconds,
        architectures=tuple(architecture or ()),
        gpu=target_gpu(settings, ledger, architecture or ()),
        approve_automatically=approve_automatically,
    )
    try:
        schedule = NightlySchedule(
            name=name,
            cron=cron,
            time_zone=time_zone,
            jitter_s=jitter_minutes * 60.0,
            catch_up_s=catch_up_minutes * 60.0,
            source=traffic.url,
            device_id=_known_device(ledger, device),
            template=template,
            counters=None if counters is None else str(counters.absolute()),
            fewest_requests=fewest_requests,
            look_back_days=look_back_days,
        )
    except ValidationError as error:
        raise UserFault(
            f"a schedule cannot be called {name!r}: use up to 64 letters, digits, dots and dashes"
        ) from error
    created = with_schedules(settings, lambda schedules: schedules.create(schedule))
    if earlier := Nights(ledger).latest(schedule.id, limit=1):
        progress_console.print(
            f"it goes on after its night of {earlier[0].began_at:%Y-%m-%d %H:%M} UTC: if another Temporal server still "
            "has this schedule, delete it there",
            highlight=False,
        )
    progress_console.print(f"{len(files)} files are at {schedule.source} now", highlight=False, markup=False)
    print_schedule(created, (), ledger, json=json)
    return ExitCode.DONE


def _known_device(ledger: Ledger, device_id: str | None) -> str:
    if device_id is None:
        here = fingerprint_device()
        ledger.put_device(here)
        return here.id
    if "/" in device_id or ledger.device(device_id) is None:
        raise UserFault(
            f"the ledger knows no device {device_id}: start its worker once (compiler-agent worker --queue device)"
        )
    return device_id
