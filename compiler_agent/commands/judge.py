"""`compiler-agent judge`: is this kernel right?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from candidates.agent import Attempt
from candidates.candidate import Candidate, Proposal
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.measurement import Measurement
from candidates.printable import printable
from candidates.task import KernelTask
from candidates.verdict import Accepted, NeedsDevice, Rejected, Verdict, is_native
from compiler_agent.commands.options import JsonOption, SandboxOption
from compiler_agent.commands.task import find_task
from compiler_agent.machine import require_machine
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import read_settings
from compiler_agent.wiring import LANGUAGES, open_workbench

CandidateArgument = Annotated[
    str, typer.Argument(help="A candidate file, such as kernel.cpp, or the id of a candidate in the ledger.")
]


def judge(
    task: Annotated[str, typer.Argument(help="Id of a task, or the start of it.")],
    candidate: CandidateArgument,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat a judgement with its seed.")] = None,
    sanitize: Annotated[bool, typer.Option(help="Also run it under sanitizers of memory and behaviour.")] = True,
    sandbox: SandboxOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Builds a kernel in the sandbox, runs it there on secret inputs, and compares with float64.

    What is right then runs on small shapes under sanitizers, as every kernel does before it wins.

    Example: compiler-agent judge 3f2a kernel.cpp
    """
    settings = read_settings(sandbox=sandbox)
    require_machine(settings)
    with open_workbench(settings) as bench:
        found = find_task(bench.ledger, task)
        parsed = find_candidate(bench.ledger, candidate)
        built = bench.builder.build(found, parsed)
        verdict = built if isinstance(built, Rejected) else bench.judge.judge(found, parsed, built, seed)
        sanitized = None
        if sanitize and isinstance(built, bytes) and is_native(verdict):
            checked = bench.sanitizers.check(found, parsed, built, seed)
            if isinstance(checked, Rejected):
                verdict = checked
            else:
                sanitized = checked
        record_evaluation(bench.ledger, found, parsed, verdict)
    if json:
        document = {"task": found.id, "candidate": parsed.id, "verdict": verdict_document(verdict)}
        print_json(document | {"sanitized": None if sanitized is None else asdict(sanitized)})
    else:
        print_verdict(verdict)
        if sanitized is not None:
            result_console.print(
                f"sanitizers found nothing on {'; '.join(sanitized.shapes)} ({sanitized.elapsed_s:.1f} s)",
                highlight=False,
            )
    return ExitCode.DONE if isinstance(verdict, Accepted) else ExitCode.NOT_ACHIEVED


def parse_candidate(path: Path) -> Candidate:
    """The candidate in a file, its language told by the ending."""
    for language in LANGUAGES.values():
        if path.suffix == language.name.file_ending:
            try:
                return language.parse(path)
            except FileNotFoundError as error:
                raise UserFault(f"no candidate at {path}") from error
            except (ValueError, OSError) as error:
                raise UserFault(str(error)) from error
    endings = ", ".join(name.file_ending for name in LANGUAGES)
    raise UserFault(f"{path}: no language has the ending {path.suffix!r}; known are {endings}")


def find_candidate(ledger: Ledger, file_or_id: str) -> Candidate:
    path = Path(file_or_id)
    if path.exists() or path.suffix in {language.file_ending for language in LANGUAGES}:
        return parse_candidate(path)
    try:
        return ledger.candidate(file_or_id)
    except LedgerError as error:
        raise UserFault(f"{error}, and there is no file {path}") from error


def record_evaluation(
    ledger: Ledger, task: KernelTask, candidate: Candidate, verdict: Verdict, measurement: Measurement | None = None
) -> None:
    ledger.put_candidate(candidate)
    proposal = Proposal(candidate=candidate, agent="hand")
    Evaluations(ledger).put(task.id, Attempt(proposal=proposal, verdict=verdict, measurement=measurement))


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """The same keys whatever the outcome."""
    nothing: dict[str, object] = {"reason": None, "workload": None, "evidence": None, "seed": None}
    return nothing | verdict.model_dump(mode="json")


def print_verdict(verdict: Verdict) -> None:
    match verdict:
        case Accepted():
            result_console.print(
                f"[bold green]accepted[/] ({verdict.evidence.value}): {verdict.calls_checked} calls, worst error "
                f"{verdict.worst_error_in_bounds:.0%} of its bound (seed {verdict.seed})",
                highlight=False,
            )
        case Rejected():
            evidence, worst = verdict.evidence, verdict.evidence.worst
            result_console.print(
                f"[bold red]rejected[/]: {verdict.reason.value} on {verdict.workload or 'no workload'} "
                f"(seed {verdict.seed})",
                highlight=False,
            )
            result_console.print(printable(evidence.message), highlight=False, markup=False)
            if worst is not None:
                result_console.print(
                    f"{worst.output}{list(worst.index)}: expected {worst.expected}, got {worst.got}, "
                    f"bound {worst.bound}",
                    highlight=False,
                    markup=False,
                )
            if evidence.log_tail:
                result_console.print(printable(evidence.log_tail), highlight=False, markup=False)
        case NeedsDevice():
            result_console.print(f"needs a device: {verdict.target}", highlight=False)
            result_console.print(printable(verdict.note), highlight=False, markup=False)
