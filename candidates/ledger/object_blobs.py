"""ObjectBlobs: blobs in an object store by an fsspec URL, such as s3://bucket/prefix.

Object stores have no rename, and do not need it: an object is there when its upload is complete. Where an upload could
be cut short, its digest tells. Credentials and endpoints come from where the store's own library looks for them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from candidates.ledger.blobs import StoredBlob

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


_CHANGED = ("LastModified", "last_modified", "mtime", "updated", "created")
"""What stores call the time of the last change."""


class BlobUrlError(Exception):
    """The URL names no store that blobs can be in, or its library is not installed; the user's to mend."""


class BlobsAway(Exception):
    """The store does not answer, or refuses; trying again later may help."""


class ObjectBlobs:
    def __init__(self, url: str) -> None:
        """Raises BlobUrlError; asks the store nothing yet."""
        self._url = url
        self._files, self._root = _open(url)

    def __str__(self) -> str:
        return self._url

    def write(self, digest: str, content: bytes) -> None:
        # Also where it is there: as young as any, which pruning asks, and whole if an upload was cut short.
        with self._answering():
            self._files.pipe_file(self._path(digest), content)

    def read(self, digest: str) -> bytes:
        with self._answering(FileNotFoundError):
            content: bytes = self._files.cat_file(self._path(digest))
        return content

    def keep(self, digest: str) -> bool:
        try:
            self.write(digest, self.read(digest))
        except FileNotFoundError:
            return False
        return True

    def list(self) -> Iterator[StoredBlob]:
        with self._answering():
            found: dict[str, dict[str, Any]] = self._files.find(self._root, detail=True)
        for path, facts in found.items():
            name = path.rpartition("/")[2]
            if len(name) == 64:
                yield StoredBlob(name, facts["size"], _changed_s(facts))

    def remove(self, digest: str, unless_changed_since_s: float) -> bool:
        """Who puts it between the look and the removal loses it: a blob put again after months, in just that moment."""
        try:
            with self._answering(FileNotFoundError):
                if _changed_s(self._files.info(self._path(digest))) > unless_changed_since_s:
                    return False
                self._files.rm_file(self._path(digest))
        except FileNotFoundError:  # somebody else did
            return True
        return True

    def _path(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"

    @contextmanager
    def _answering(self, *expected: type[Exception]) -> Iterator[None]:
        try:
            yield
        except expected:
            raise
        except Exception as error:  # each store's library has exceptions of its own
            raise BlobsAway(f"the blobs in {self._url} cannot be reached: {type(error).__name__}: {error}") from error


def _open(url: str) -> "tuple[AbstractFileSystem, str]":
    try:
        from fsspec.core import url_to_fs

        files, root = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise BlobUrlError(
            f"what {url} needs cannot be imported ({error}): pip install 'compiler-agent[objects]' for s3"
        ) from error
    except ValueError as error:
        raise BlobUrlError(f"{url} is no place for blobs: {error}") from error
    return files, root.rstrip("/")


def _changed_s(facts: dict[str, Any]) -> float:
    """Stores call it by different names."""
    changed = next(
        facts[name] for name in ("LastModified", "last_modified", "mtime", "updated", "created") if name in facts
    )
    if isinstance(changed, str):
        changed = datetime.fromisoformat(changed)
    return changed.timestamp() if isinstance(changed, datetime) else float(changed)
