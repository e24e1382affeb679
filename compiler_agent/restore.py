"""restore_backup: a home made again from a backup, in an empty folder and an empty database.

Every byte is checked before the first is written. The ledger comes last but for the pointer to the live build: what a
killed restore leaves is not taken for a whole home, and is to be removed.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from candidates.ledger import standings
from candidates.ledger.blobs import BlobStore
from candidates.ledger.copy_ledger import copy_ledger, require_empty
from candidates.ledger.database import is_there, open_database
from candidates.ledger.schema import require_known
from candidates.serving_build.build import builds_folder
from candidates.serving_build.builds import point_at
from candidates.store_faults import named_faults
from compiler_agent.backup import (
    BLOBS,
    BUILDS,
    HOME,
    KEYS,
    LEDGER,
    MANIFEST,
    BackupManifest,
    copy_folder,
    files_in,
    saved_file,
)
from compiler_agent.blob_store import open_blobs
from compiler_agent.outcome import UserFault
from compiler_agent.settings import Settings


def restore_backup(source: Path, settings: Settings) -> BackupManifest:
    """Raises UserFault for what is no whole backup and for a home that is not empty, LedgerNotEmpty, and
    RevisionRefused for a backup of a newer version; all before anything is written."""
    manifest = read_backup(source)
    home = settings.home
    if home.exists() and any(home.iterdir()):
        raise UserFault(f"{home} is not empty: restore into a COMPILER_AGENT_HOME that is, or remove what is there")
    if home.is_relative_to(source):
        raise UserFault(f"{home} lies in the backup: set COMPILER_AGENT_HOME to a folder elsewhere")
    if is_there(settings.ledger_url):
        with open_database(settings.ledger_url, standings.rebuild).connect() as connection:
            require_empty(connection)
    with named_faults():
        copy_folder(source / HOME, home)
        if (source / KEYS).is_dir():
            copy_folder(source / KEYS, home / KEYS)
            (home / KEYS).chmod(0o700)
        saved, blobs = BlobStore(source / BLOBS), open_blobs(settings)
        for blob in saved.list():
            blobs.put(saved.get(blob.digest))
        copy_folder(source / BUILDS, builds_folder(home))
        with TemporaryDirectory(prefix=".restore-", dir=home) as place:
            # A copy, since one of an older release is brought up when it is opened.
            shutil.copy2(source / LEDGER, Path(place) / LEDGER)
            copy = open_database(f"sqlite:///{place}/{LEDGER}", standings.rebuild)
            copy_ledger(copy, open_database(settings.ledger_url, standings.rebuild))
            copy.dispose()
        if manifest.live_build is not None:
            point_at(builds_folder(home), manifest.live_build)
    return manifest


def read_backup(source: Path) -> BackupManifest:
    """Of a backup whose every byte is as it was written. Raises UserFault, and RevisionRefused for one of a newer
    version."""
    try:
        manifest = BackupManifest.model_validate_json((source / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValidationError) as error:
        raise UserFault(
            f"{source} is no whole backup: {MANIFEST} is not there, or not one of this project's"
        ) from error
    require_known(manifest.revision)
    live, found = manifest.live_build, set(files_in(source))
    if live is not None and not any(name.startswith(f"{BUILDS}/{live}/") for name in found):
        raise UserFault(f"{source} is no whole backup: its live build {live!r} is not in it")
    if lost := sorted(manifest.files.keys() ^ found):
        raise UserFault(f"{source} is no whole backup: {lost[0]} is {'in excess' if lost[0] in found else 'missing'}")
    for name, saved in manifest.files.items():
        if saved_file(source / name) != saved:
            raise UserFault(f"{source} is damaged: {name} is not as it was written")
    return manifest
