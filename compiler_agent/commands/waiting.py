"""`compiler-agent waiting`: kernels that wait for a device."""

from rich.table import Table

from candidates.ledger.ledger import Ledger
from candidates.ledger.waiting import waiting_for_device
from candidates.printable import printable
from candidates.verdict import NeedsDevice
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.settings import read_settings


def waiting(json: JsonOption = False) -> ExitCode:
    """Lists candidates that are right as far as this machine can tell, and that only a GPU can judge and time.

    Example: compiler-agent waiting --json
    """
    found = waiting_for_device(Ledger(read_settings().ledger_url))
    if not found and not json:
        result_console.print("no kernel waits for a GPU: `run --architecture sm_90` writes some", highlight=False)
        return ExitCode.DONE
    if json:
        print_json(
            [
                {
                    "task": task.id,
                    "op": task.op,
                    "architectures": task.architectures,
                    "candidate": candidate.id,
                    "language": candidate.language.value,
                    "verdict": verdict.model_dump(mode="json"),
                }
                for task, candidate, verdict in found
            ]
        )
        return ExitCode.DONE
    table = Table("task", "op", "for", "candidate", "language", "so far", box=None, header_style="bold")
    for task, candidate, verdict in found:
        so_far = verdict.note if isinstance(verdict, NeedsDevice) else "right in the interpreter"
        table.add_row(
            task.id[:12],
            task.op,
            " ".join(task.architectures) or "a GPU",
            candidate.id[:12],
            candidate.language.value,
            printable(so_far),
        )
    result_console.print(table)
    return ExitCode.DONE
