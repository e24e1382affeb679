"""TritonArtifact: what a Triton build left. Its bytes are a candidate's: names and sizes are bounded first."""

import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

_MOST_FILES = 2000
_MOST_FILE_BYTES = 16 << 20
_MOST_BYTES = 96 << 20
_NAME = re.compile(r"kernel\.py|report\.json|cache/[A-Za-z0-9_-]{1,100}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


class BadArtifact(ValueError):
    """Not what a build leaves; the message says in what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonArtifact:
    source: bytes
    report: bytes
    """JSON as `triton_report` reads it."""
    cache: Mapping[str, bytes]
    """Files of Triton's cache by `FOLDER/NAME`; they refer to each other by their places under TRITON_CACHE."""


TRITON_CACHE = "/scratch/triton_cache"
"""Where a sandboxed Triton finds the cache (TRITON_CACHE_DIR), the same at every build."""


def read_artifact(artifact: bytes) -> TritonArtifact:
    """Raises BadArtifact."""
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
            members = archive.infolist()
            if len(members) > _MOST_FILES:
                raise BadArtifact(f"{len(members)} files in a Triton artifact: {_MOST_FILES} at most")
            room = _MOST_BYTES
            for member in members:
                name = member.filename
                if not _NAME.fullmatch(name) or name in files:
                    raise BadArtifact(f"a file {name[:100]!r} in a Triton artifact")
                files[name] = _read(archive, member, min(_MOST_FILE_BYTES, room))
                room -= len(files[name])
    except BadArtifact:
        raise
    except (zipfile.BadZipFile, zlib.error, RuntimeError, OSError, ValueError, EOFError) as error:
        raise BadArtifact(f"no Triton artifact: {error}") from error
    if missing := {"kernel.py", "report.json"} - files.keys():
        raise BadArtifact(f"a Triton artifact without {', '.join(sorted(missing))}")
    return TritonArtifact(
        source=files.pop("kernel.py"),
        report=files.pop("report.json"),
        cache={name.removeprefix("cache/"): content for name, content in files.items()},
    )


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most_bytes: int) -> bytes:
    """What is there counts, not the size that the member claims."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadArtifact(f"{member.filename}: compressed by method {member.compress_type}")
    with archive.open(member) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise BadArtifact(f"{member.filename}: more than {most_bytes} bytes")
    return content
