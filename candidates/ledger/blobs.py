"""BlobStore: bytes addressed by their sha256, in a folder or in an object store.

What is read is checked against its name, so that a half-written object is never taken for a whole one, and what is put
is written again unless a folder has it whole: a step that is repeated heals what a killed one left. There is no cache
between: a blob is read once or twice by who judges or shows it, beside seconds of measuring.
"""

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from candidates.whole_file import write_whole

_DIGEST = re.compile(r"[0-9a-f]{64}")
REMOVED = ".removed-"
"""How the name of a file begins that is about to go."""


class BlobError(Exception):
    """A blob is missing or its bytes are not those that its name promises."""


class StoredBlob(NamedTuple):
    digest: str
    size_bytes: int
    changed_s: float
    """When it was last put or kept, in seconds since 1970."""


class BlobPlace(Protocol):
    """Where the bytes lie. Each method raises OSError or `object_blobs.BlobsAway` where the place is at fault."""

    def write(self, digest: str, content: bytes) -> None: ...

    def read(self, digest: str) -> bytes:
        """Raises FileNotFoundError."""

    def keep(self, digest: str) -> bool:
        """Makes it as young as if it were written now; False where it is not there."""

    def list(self) -> Iterator[StoredBlob]: ...

    def remove(self, digest: str, unless_changed_since_s: float) -> bool:
        """False: it was changed since then, and is still there."""


class BlobStore:
    def __init__(self, place: Path | BlobPlace) -> None:
        self._place: BlobPlace = BlobFolder(place) if isinstance(place, Path) else place

    def put(self, content: bytes) -> str:
        """The digest (hex) under which `content` now lies; whole or not at all."""
        digest = hashlib.sha256(content).hexdigest()
        self._place.write(digest, content)
        return digest

    def get(self, digest: str) -> bytes:
        try:
            content = self._place.read(_require(digest))
        except (FileNotFoundError, IsADirectoryError) as error:
            raise BlobError(f"blob {digest} is not in {self._place} ({error.strerror or 'not found'})") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise BlobError(
                f"blob {digest} in {self._place} does not have the content that its name promises: restore it from a "
                "backup"
            )
        return content

    def keep(self, digest: str) -> bool:
        """Whether it is there; then nobody prunes it for as long as if it were put now."""
        return self._place.keep(_require(digest))

    def list(self) -> Iterator[StoredBlob]:
        """In no order."""
        return self._place.list()

    def remove(self, blob: StoredBlob) -> bool:
        """False: somebody put it again since it was listed."""
        return self._place.remove(_require(blob.digest), blob.changed_s)


class BlobFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def write(self, digest: str, content: bytes) -> None:
        # Of another size: what a damaged disk left of it.
        if not (self.keep(digest) and self._path(digest).stat().st_size == len(content)):
            write_whole(self._path(digest), content)

    def read(self, digest: str) -> bytes:
        return self._path(digest).read_bytes()

    def keep(self, digest: str) -> bool:
        try:
            os.utime(self._path(digest))
        except FileNotFoundError:
            return False
        except OSError as error:
            # Of another user, or on a store that only reads: nobody prunes there.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return self._path(digest).exists()
        return True

    def list(self) -> Iterator[StoredBlob]:
        for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
            with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                status = path.stat()
                if _DIGEST.fullmatch(path.name):
                    yield StoredBlob(path.name, status.st_size, status.st_mtime)

    def remove(self, digest: str, unless_changed_since_s: float) -> bool:
        path = self._path(digest)
        # Out of the way first: who puts it from now on writes it anew, and who did before is seen by its time.
        aside = path.with_name(f"{REMOVED}{digest}")
        try:
            path.rename(aside)
        except FileNotFoundError:  # somebody else did
            return True
        if aside.stat().st_mtime > unless_changed_since_s:
            aside.rename(path)
            return False
        aside.unlink()
        return True

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest


def _require(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise BlobError(f"{digest!r} names no blob")
    return digest
