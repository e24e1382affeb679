"""`compiler-agent builds`: serving builds, which of them is live, and the decisions that made it so."""

import getpass
from typing import Annotated

import typer
from rich.table import Table
from sqlalchemy.orm import Session

from candidates.ledger.approvals import Approvals
from candidates.ledger.flaws import Flaws
from candidates.ledger.gates import found_of_build
from candidates.ledger.ledger import Ledger
from candidates.serving_build.build import Build
from candidates.serving_build.builds import Approval, BuildStore
from candidates.serving_build.difference import compare_builds
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.signing import key_file, public_key, sign_build, trusted_keys
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console, result_console
from compiler_agent.roll_back import roll_back
from compiler_agent.settings import read_settings

app = typer.Typer(help="Serving builds: list, show, compare, sign, approve, roll back, collect.", no_args_is_help=True)

_PASSED = "passed"

BuildArgument = Annotated[str, typer.Argument(help="Id of a build, or the start of it.")]


@app.command("list")
def list_builds(json: JsonOption = False) -> ExitCode:
    """Lists the builds, the newest first, and which is live.

    Example: compiler-agent builds list
    """
    settings = read_settings()
    ledger, store = Ledger(settings.ledger_url), BuildStore(settings.home)
    try:
        builds, live = store.list(), store.current()
    except BuildRefused as error:
        raise UserFault(f"{error}: remove that build's folder, or restore it") from error
    if json:
        print_json(
            [{"id": build.id, "path": str(build.path), "kernels": len(build.manifest.kernels), "live": build.id == live,
              "gates": _gate_words(ledger, build)} for build in builds]
        )  # fmt: skip
        return ExitCode.DONE
    if not builds:
        result_console.print("no builds: `compiler-agent run` makes one of what wins", highlight=False)
        return ExitCode.DONE
    table = Table("build", "live", "gates", "model", "device", "kernels", box=None, header_style="bold")
    for build in builds:
        manifest = build.manifest
        ops = ", ".join(kernel.op for kernel in manifest.kernels)
        state = "live" if build.id == live else ""
        table.add_row(build.id[:12], state, _gate_words(ledger, build), manifest.model, manifest.device.id, ops)
    result_console.print(table)
    return ExitCode.DONE


@app.command()
def show(build: BuildArgument, json: JsonOption = False) -> ExitCode:
    """Shows a build's manifest, after checking every byte of it.

    Example: compiler-agent builds show 3f2a
    """
    settings = read_settings()
    ledger = Ledger(settings.ledger_url)
    found, flaws = BuildStore(settings.home).show(build), Flaws(ledger)
    if json:
        print_json({"id": found.id, "path": str(found.path)} | found.manifest.model_dump(mode="json"))
        return ExitCode.DONE
    result_console.print(f"{found.path}\nmodel {found.manifest.model}, device {found.manifest.device.id}")
    result_console.print(f"gates: {_gate_words(ledger, found)}", highlight=False)
    for kernel in found.manifest.kernels:
        measured = kernel.measurement
        result_console.print(
            f"  {kernel.op}: {measured.traffic_weighted_speedup:.2f}x "
            f"({measured.interval.low:.2f}-{measured.interval.high:.2f}), candidate {kernel.id[:12]}"
            + ("" if (flaw := flaws.of(kernel.id)) is None else f", MAY NOT SERVE: {flaw}"),
            highlight=False,
        )
    return ExitCode.DONE


@app.command()
def approve(
    build: BuildArgument,
    force: Annotated[bool, typer.Option("--force", help="Although its gates failed or were never measured.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Makes a build live that passed its gates, after checking every byte and, where this home trusts any key, the
    signature.

    Trusted are COMPILER_AGENT_TRUSTED_KEYS and this home's own key. Who approved is recorded.

    Example: compiler-agent builds approve 3f2a
    """
    settings = read_settings()
    ledger, store = Ledger(settings.ledger_url), BuildStore(settings.home)
    found = store.show(build)
    require_no_flaw(ledger, found)
    state = _gate_words(ledger, found)
    if state != _PASSED and not force:
        raise UserFault(f"build {build} has not passed its gates ({state}): --force makes it live all the same")
    by = getpass.getuser() if state == _PASSED else f"{getpass.getuser()}, by force: {state}"
    approval = store.approve(found.id, by=by)
    Approvals(ledger).put(approval)
    if not trusted_keys(settings.home):
        progress_console.print(
            "No key is trusted here, so no signature was asked for; serving processes load the build only with "
            "COMPILER_AGENT_ALLOW_UNSIGNED=1. `compiler-agent keys new`, then `builds sign`, changes that.",
            highlight=False,
        )
    return _say_moved(approval, json=json)


@app.command()
def rollback(json: JsonOption = False) -> ExitCode:
    """Moves back to the last build that was live before and may still serve: whole, trusted, without a kernel that was
    found wrong since; to no build where there is none.

    Example: compiler-agent builds rollback
    """
    return _say_moved(roll_back(read_settings(), by=getpass.getuser()), json=json)


@app.command()
def withdraw(json: JsonOption = False) -> ExitCode:
    """Takes the live build back: serving processes that start from now on run the model without any.

    Example: compiler-agent builds withdraw
    """
    settings = read_settings()
    approval = BuildStore(settings.home).withdraw(by=getpass.getuser())
    Approvals(Ledger(settings.ledger_url)).put(approval)
    return _say_moved(approval, json=json)


def _say_moved(approval: Approval, *, json: bool) -> ExitCode:
    if json:
        print_json(approval)
    else:
        live, before = approval.build_id or "no build", approval.previous or "none"
        result_console.print(f"live: {live} (before: {before})", highlight=False)
    return ExitCode.DONE


def _gate_words(ledger: Ledger, build: Build) -> str:
    with Session(ledger.engine) as session:
        found = found_of_build(session, build.id)
    if found is None:
        return "never measured"
    failed = ", ".join(gate.name for gate in found.gates if not gate.passed)
    return f"failed: {failed}" if failed else _PASSED


def require_no_flaw(ledger: Ledger, build: Build) -> None:
    """Raises UserFault for a build with a kernel that was found wrong since it won."""
    if (flaw := Flaws(ledger).first_in(build)) is not None:
        raise UserFault(f"build {build.id[:12]} has a kernel that may not serve: {flaw}")


@app.command()
def sign(build: BuildArgument, json: JsonOption = False) -> ExitCode:
    """Adds this home's signature to a build that was made before its key, after checking every byte of it.

    Example: compiler-agent builds sign 3f2a
    """
    home = read_settings().home
    found = BuildStore(home).show(build)
    if not sign_build(home, found.path):
        raise UserFault(f"no key in {key_file(home)}: `compiler-agent keys new` makes one")
    public = public_key(home)
    if json:
        print_json({"id": found.id, "signed_by": public})
    else:
        result_console.print(f"{found.id} signed by {public}", highlight=False)
    return ExitCode.DONE


@app.command()
def diff(before: BuildArgument, after: BuildArgument, json: JsonOption = False) -> ExitCode:
    """Says what changes for the model when the second build takes the place of the first.

    Example: compiler-agent builds diff 3f2a 91bc
    """
    store = BuildStore(read_settings().home)
    difference = compare_builds(store.show(before).manifest, store.show(after).manifest)
    if json:
        print_json(difference)
        return ExitCode.DONE
    lines = [f"! other {what}" for what in difference.settings]
    lines += ["! other runtime"] if difference.is_runtime_changed else []
    lines += [f"+ {op}" for op in difference.added] + [f"- {op}" for op in difference.removed]
    for kernel in difference.changed:
        speedups = f"{kernel.speedup_before:.2f}x -> {kernel.speedup:.2f}x"
        candidates = f"candidate {kernel.before_id[:12]} -> {kernel.id[:12]}"
        lines.append(f"~ {kernel.op}: {speedups}, {candidates} ({', '.join(kernel.changes)})")
    result_console.print("\n".join(lines) or "no difference", highlight=False, markup=False)
    return ExitCode.DONE


@app.command()
def gc(
    keep: Annotated[int, typer.Option(min=1, help="So many of the newest builds stay in any case.")] = 5,
    json: JsonOption = False,
) -> ExitCode:
    """Removes old builds, and what killed processes left behind.

    The live build, the one that a rollback goes to, and builds approved in the last 7 days always stay.

    Example: compiler-agent builds gc --keep 3
    """
    removed = BuildStore(read_settings().home).collect_garbage(keep)
    if json:
        print_json({"removed": list(removed)})
    else:
        result_console.print("\n".join(removed) or "nothing to remove", highlight=False)
    return ExitCode.DONE
