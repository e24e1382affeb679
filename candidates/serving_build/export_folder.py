"""Export folders: written whole, with a list of what is in them, and never over a folder that is not one of ours."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from candidates.record import Record
from candidates.serving_build.target import Export

MARKER = "compiler-agent-export.json"


class NotOurs(Exception):
    """The user named a folder that holds something else; the message says what."""


class ExportMarker(Record):
    """What an export folder says of itself."""

    target: str
    build_id: str
    files: dict[str, str]
    """sha256 (hex) of every other file, by its path within the folder."""


def write_export(export: Export, target: str, build_id: str, to: Path) -> None:
    """Puts the export into the new or empty folder `to`, or in place of an earlier export of ours.

    It appears whole or not at all. Raises NotOurs, before anything is written, for a folder that holds any other file;
    OSError when the disk is at fault.
    """
    to = to.absolute()
    to = to.resolve() if to.exists() else to
    _require_ours(to)
    marker = ExportMarker(
        target=target,
        build_id=build_id,
        files={name: hashlib.sha256(content).hexdigest() for name, content in sorted(export.files.items())},
    )
    files = dict(export.files) | {MARKER: marker.model_dump_json(indent=1).encode() + b"\n"}
    to.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-export-", dir=to.parent))
    try:
        _write(unfinished / "new", files)
        _put_in_place(unfinished / "new", to, unfinished / "old")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _require_ours(to: Path) -> None:
    if not to.exists() and not to.is_symlink():
        return
    if not to.is_dir():
        raise NotOurs(f"{to} is not a folder: export to another place")
    found = {path.relative_to(to).as_posix() for path in to.rglob("*") if path.is_symlink() or not path.is_dir()}
    if not found:
        return
    try:
        marker = ExportMarker.model_validate_json((to / MARKER).read_bytes())
    except (OSError, ValidationError) as error:
        raise NotOurs(f"{to} is not empty and holds no export of ours: export to another folder") from error
    foreign = sorted(name for name in found - marker.files.keys() - {MARKER} if not _is_left_by_tools(name))
    changed = [name for name in sorted(found & marker.files.keys()) if _digest_of(to / name) != marker.files[name]]
    if foreign or changed:
        name, what = (foreign[0], "is not of the export") if foreign else (changed[0], "was changed since")
        raise NotOurs(f"{to / name} {what}: move it elsewhere, or export to another folder")


def _put_in_place(new: Path, to: Path, old: Path) -> None:
    if to.exists():
        to.rename(old)
    try:
        new.rename(to)
    except OSError:
        if old.exists():
            old.rename(to)
        raise


def _is_left_by_tools(name: str) -> bool:
    """Python and pip leave these where they import from or build."""
    parts = PurePosixPath(name).parts
    if "__pycache__" in parts or any(part.endswith(".egg-info") for part in parts):
        return True
    return parts[0] == "build" and len(parts) > 2 and (parts[1] == "lib" or parts[1].startswith("bdist."))


def _digest_of(path: Path) -> str:
    return "a link" if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        _require_inside(PurePosixPath(name).parts)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())


def _require_inside(parts: Iterable[str]) -> None:
    if any(part in ("..", "/") for part in parts):
        raise ValueError(f"{parts} is no path within an export")
