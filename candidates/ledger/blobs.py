"""BlobStore: bytes addressed by their sha256, in a folder."""

import hashlib
import os
import tempfile
from pathlib import Path


class BlobError(Exception):
    """A blob is missing or its bytes are not those that its name promises."""


class BlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes) -> str:
        """The digest (hex) under which `content` now lies; written whole or not at all."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._path(digest)
        if path.exists():
            return digest
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        return digest

    def get(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise BlobError(f"blob {digest} is not in {self._folder}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise BlobError(f"blob {path} does not have the content that its name promises: restore it from a backup")
        return content

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest
