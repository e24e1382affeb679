"""FsspecSource: a file, a folder, a pattern or a prefix of an object store, by its URL.

`/var/log/serving`, `file:///var/log/serving/requests-*.jsonl`, `s3://bucket/prefix/`: whatever fsspec knows, with the
credentials that its file systems find in the environment and their own files. Hidden files are passed over, those of
folders within a folder are not.
"""

import contextlib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import fsspec

from traces.sources.source import SourceFile, SourceUnavailable
from traces.sources.traffic import FileVersion

_PIECE_BYTES = 1 << 20
_PATTERN = re.compile(r"[*?\[]")


class BadSourceUrl(Exception):
    """The user's to mend; the message says how."""


class FsspecSource:
    """Raises BadSourceUrl for a URL that nothing here can read, or that holds a password."""

    def __init__(self, url: str) -> None:
        # Also where file systems are chained: simplecache::s3://bucket/prefix.
        if re.search("://[^/]*@", url):
            raise BadSourceUrl("a source's URL holds no user or password: credentials come from the environment")
        try:
            # Instances are shared within a process otherwise, and with them listings of earlier nights.
            self._files, path = fsspec.core.url_to_fs(url, skip_instance_cache=True)
        except ImportError as error:
            raise BadSourceUrl(
                f"{url}: {error}: for s3:// pip install 'compiler-agent[objects]', for others what fsspec asks for"
            ) from error
        except Exception as error:  # each file system has errors of its own
            raise BadSourceUrl(f"{url}: {error}: give a path, or a URL such as s3://bucket/prefix/") from error
        self._path: str = path.rstrip("/") or path
        self._folder = posixpath.dirname(_PATTERN.split(self._path)[0] + "x") if self._is_pattern else self._path
        self._paths: dict[str, str] = {}

    @property
    def url(self) -> str:
        """The same for every way to write it."""
        return str(self._files.unstrip_protocol(self._path))

    @property
    def label(self) -> str:
        name = posixpath.basename(self._folder).split(".")[0]
        return re.sub(r"[^\w-]", "_", name) or "traffic"

    @property
    def _is_pattern(self) -> bool:
        return _PATTERN.search(self._path) is not None

    def list_files(self) -> Sequence[SourceFile]:
        try:
            self._files.invalidate_cache()
            if self._is_pattern:
                found = self._files.glob(self._path, detail=True)
            else:
                found = self._files.find(self._path, detail=True)
                if not found:
                    self._files.info(self._path)  # raises where there is not even a folder
        except Exception as error:  # as above
            raise SourceUnavailable(f"{self.url} cannot be listed ({_in_words(error)})") from error
        found = {path: self._followed(path, info) for path, info in found.items()}
        self._paths = {self._name(path): path for path, info in found.items() if info["type"] == "file"}
        listed = [
            SourceFile(name=name, version=_version(found[path]))
            for name, path in self._paths.items()
            if not any(part.startswith(".") for part in name.split("/"))
        ]
        beginning = datetime.min.replace(tzinfo=UTC)
        return sorted(listed, key=lambda file: (file.version.modified_at or beginning, file.name))

    def read(self, name: str) -> Iterator[bytes]:
        try:
            with self._files.open(self._paths[name], "rb") as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece
        except Exception as error:  # as above
            raise SourceUnavailable(f"it cannot be read ({_in_words(error)})") from error

    def _followed(self, path: str, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """Listings tell of a link itself: its time is not that of the file."""
        if info.get("islink"):
            with contextlib.suppress(OSError):  # it leads nowhere
                followed: Mapping[str, Any] = self._files.info(path)
                return followed
        return info

    def _name(self, path: str) -> str:
        name = posixpath.relpath(path, self._folder) if path != self._folder else posixpath.basename(path)
        # Python has surrogates for the bytes of a name that is not UTF-8; no record may hold them.
        return name.encode("utf-8", "backslashreplace").decode()


def _version(info: Mapping[str, Any]) -> FileVersion:
    """Each file system has words of its own for a file's time and tag."""
    when = next(
        (info[word] for word in ("mtime", "LastModified", "last_modified", "created", "updated") if word in info), None
    )
    etag = next((str(info[word]) for word in ("ETag", "etag") if info.get(word)), None)
    return FileVersion(size_bytes=int(info["size"] or 0), modified_at=_moment(when), etag=etag)


def _moment(when: object) -> datetime | None:
    match when:
        case datetime():
            return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
        case int() | float():
            with contextlib.suppress(ValueError, OverflowError):  # a time beyond all calendars
                return datetime.fromtimestamp(when, UTC)
            return None
        case str():
            try:
                return _moment(datetime.fromisoformat(when))
            except ValueError:
                return None
        case _:
            return None


def _in_words(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
