"""BlobStore: bytes addressed by their sha256, in a folder."""

import hashlib
import re
from pathlib import Path

from candidates.whole_file import write_whole

_DIGEST = re.compile(r"[0-9a-f]{64}")


class BlobError(Exception):
    """A blob is missing or its bytes are not those that its name promises."""


class BlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes) -> str:
        """The digest (hex) under which `content` now lies; written whole or not at all."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._path(digest)
        if not path.exists():
            write_whole(path, content)
        return digest

    def get(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BlobError(f"blob {digest} is not in {self._folder} ({error.strerror})") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise BlobError(f"blob {path} does not have the content that its name promises: restore it from a backup")
        return content

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise BlobError(f"{digest!r} names no blob")
        return self._folder / digest[:2] / digest
