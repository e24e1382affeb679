"""Options that several commands have, said once."""

from pathlib import Path
from typing import Annotated

import typer

from candidates.languages.gpu_architectures import NAMES
from compiler_agent.settings import SandboxName
from traces.replay.settings import EngineName

ModelOption = Annotated[str, typer.Option(help="A local Hugging Face folder, or the embedded default.")]
EngineOption = Annotated[EngineName, typer.Option(help="How the engine forms steps.")]
UtilisationOption = Annotated[float, typer.Option(min=0.01, max=1.0, help="Share of time the device is busy.")]
WorkloadClassOption = Annotated[str | None, typer.Option(help="What to call this traffic.")]
TraceFormatOption = Annotated[str | None, typer.Option("--format", help="Of the trace, where content does not tell.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Only the first N requests.")]


CountersOption = Annotated[
    Path | None,
    typer.Option(
        help="What a live build counted (`Installation.write_counters`): its ops are tuned for the shapes that serving "
        "asks for."
    ),
]


def _check_architectures(names: list[str] | None) -> list[str]:
    if unknown := [name for name in names or () if name not in NAMES]:
        raise typer.BadParameter(f"{', '.join(unknown)}: kernels are written for {', '.join(NAMES)}")
    return names or []


ArchitectureOption = Annotated[
    list[str] | None,
    typer.Option(
        callback=_check_architectures,
        help="A GPU to write kernels for, such as sm_90 or gfx942; may be given several times. Where this machine has "
        "none of them, kernels are compiled for it and interpreted, and wait for it.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

SandboxOption = Annotated[
    SandboxName | None,
    typer.Option(help="What holds untrusted kernels; else COMPILER_AGENT_SANDBOX says, else it is bubblewrap."),
]

AgentOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Who writes candidates: search (the default) or llm. Several take turns in the order given, each with its "
        "share of time and attempts: --agent search --agent llm."
    ),
]
ModelNameOption = Annotated[
    list[str] | None,
    typer.Option(help="A language model for --agent llm, by its endpoint's name; may be given several times."),
]
BudgetUsdOption = Annotated[float | None, typer.Option(min=0.0, help="Dollars that models may cost.")]
BudgetUsdPerOpOption = Annotated[float | None, typer.Option(min=0.0, help="Dollars that models may cost, an op.")]
BudgetTokensOption = Annotated[int | None, typer.Option(min=0, help="Tokens that models may read and write.")]
BudgetCallsOption = Annotated[int | None, typer.Option(min=0, help="Calls that may be made to models.")]
DeviceUsdPerHourOption = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="What the device costs that this traffic keeps busy. With it, models may cost no more at an op than a "
        "perfect kernel for it would save in --payback-days.",
    ),
]
PaybackDaysOption = Annotated[float, typer.Option(min=0.1, help="See --device-usd-per-hour.")]
HotOpsOption = Annotated[int, typer.Option(min=1, help="How many ops are searched.")]
SearchSecondsOption = Annotated[float, typer.Option(min=1.0, max=1e7, help="Search time for all ops together.")]
AttemptsOption = Annotated[int, typer.Option(min=1, help="Candidates at most, an op.")]
EndToEndSecondsOption = Annotated[float, typer.Option(min=1.0, max=1e7, help="Time for the end-to-end gate.")]
CompileSecondsOption = Annotated[
    float, typer.Option(min=0.0, max=1e7, help="Patience with torch.compile of the whole model; 0 leaves it out.")
]
Bfloat16WeightsOption = Annotated[
    bool,
    typer.Option(
        "--bfloat16-weights",
        help="Kernels may round float32 weight matrices to bfloat16, which is an error: a build's gates say whether "
        "the model bears it.",
    ),
]
ApproveAutomaticallyOption = Annotated[
    bool, typer.Option("--approve-automatically", help="A build that passes every gate goes live by itself.")
]
