"""`compiler-agent backup` and `restore`: all that a home holds and cannot make again."""

from pathlib import Path
from typing import Annotated

import typer

from candidates.serving_build.builds import BuildStore
from candidates.serving_build.signing import trusted_keys
from compiler_agent.backup import BackupManifest, make_backup
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json, progress_console, result_console
from compiler_agent.restore import restore_backup
from compiler_agent.settings import read_settings


def backup(
    target: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Also the private key and the leaderboard's tokens.")
    ] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Writes ledger, blobs, builds and settings into a folder, with a digest of every file; runs may go on meanwhile.

    The ledger in it is a SQLite file, whatever database it came from. Secrets are left out unless --with-keys says
    otherwise: keep the private key elsewhere, or builds must be signed by a new one.

    Example: compiler-agent backup /backups/monday
    """
    made = make_backup(read_settings(), target.absolute(), with_keys=with_keys)
    return _print(made, "saved", json=json)


def restore(
    source: Annotated[Path, typer.Argument(help="A folder that `backup` wrote.")], json: JsonOption = False
) -> ExitCode:
    """Makes a home again from a backup, after checking every byte of it: the same wins, the same live build, runs that
    can go on.

    COMPILER_AGENT_HOME must be empty, and so the database in COMPILER_AGENT_LEDGER, which need not be of the kind that
    the backup was made from.

    Example: COMPILER_AGENT_HOME=/srv/agent compiler-agent restore /backups/monday
    """
    settings = read_settings()
    restored = restore_backup(source.absolute(), settings)
    BuildStore(settings.home).live()
    if restored.signers and not set(restored.signers) & set(trusted_keys(settings.home)):
        progress_console.print(
            f"The live build is signed by {restored.signers[0]}, which this home does not trust: put its private key "
            f"into {settings.home / 'keys' / 'signing.pem'}, or its public half into COMPILER_AGENT_TRUSTED_KEYS.",
            highlight=False,
        )
    return _print(restored, "restored", json=json)


def _print(manifest: BackupManifest, done: str, *, json: bool) -> ExitCode:
    size_bytes = sum(file.size_bytes for file in manifest.files.values())
    if json:
        print_json(manifest.model_dump(mode="json", exclude={"files"})
                   | {"files": len(manifest.files), "size_bytes": size_bytes})  # fmt: skip
    else:
        result_console.print(
            f"{done}: {sum(manifest.rows.values())} rows, {len(manifest.files)} files, {size_bytes / 2**20:.1f} MiB; "
            f"live: {manifest.live_build or 'no build'}",
            highlight=False,
        )
    return ExitCode.DONE
