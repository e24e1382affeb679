"""`compiler-agent retract`: a flaw was found in a kernel that had won."""

import getpass
from typing import Annotated

import typer

from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.promotion import Retraction
from candidates.serving_build.builds import BuildStore
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.settings import read_settings


def retract(
    candidate: Annotated[str, typer.Argument(help="Id of a candidate, or the start of it.")],
    reason: Annotated[str, typer.Option(help="What is wrong with it; everyone who asks is told.")],
    json: JsonOption = False,
) -> ExitCode:
    """Records that a kernel may not be shipped any more; the next run's build is without it, and says why.

    Example: compiler-agent retract 3f2a --reason "reads past the end for batches above 512"

    What is live stays until somebody acts: `compiler-agent builds rollback` goes back to the last build without it, and
    COMPILER_AGENT_DISABLE=1 in a serving process stops all kernels there.
    """
    settings = read_settings()
    ledger = Ledger(settings.ledger_url)
    found = ledger.candidate(candidate)
    retraction = Retraction(candidate_id=found.id, reason=reason, by=getpass.getuser())
    Retractions(ledger).put(retraction)
    store = BuildStore(settings.home)
    live = store.current()
    is_live = live is not None and any(entry.id == found.id for entry in store.show(live).manifest.kernels)
    if json:
        print_json(retraction.model_dump(mode="json") | {"is_live": is_live})
    else:
        where = f"it is live in {(live or '')[:12]}: `compiler-agent builds rollback` goes back to a build without it"
        result_console.print(f"retracted {found.id[:12]}; {where if is_live else 'it is not live'}", highlight=False)
    return ExitCode.DONE
