"""ShownBuilds: builds as pages show them, without hashing every byte of each for every reader.

A build that was verified is kept for as long as no file of it looks touched: size, times and inode of each are what
they were. That is for showing alone; whatever makes a build live verifies it anew.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from candidates.serving_build.build import Build, read_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.runtime import BuildRefused

_Marks = tuple[tuple[str, int, int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBuild:
    """A folder that holds something else than its name says."""

    id: str
    reason: str


ShownBuild = Build | RefusedBuild


class ShownBuilds:
    def __init__(self) -> None:
        self._kept: dict[Path, tuple[_Marks, ShownBuild]] = {}
        self._lock = Lock()

    def list(self, store: BuildStore) -> tuple[ShownBuild, ...]:
        """The newest first."""
        return self._read(store.paths())

    def show(self, store: BuildStore, build_id: str) -> ShownBuild:
        """The one whose id starts so. Raises BuildNotFound."""
        return self._read([store.path_of(build_id)])[0]

    def _read(self, paths: Sequence[Path]) -> tuple[ShownBuild, ...]:
        with self._lock:  # a build that two readers ask for is hashed once
            found = []
            for path in paths:
                marks = tuple(sorted(_marks_of(path)))
                kept = self._kept.get(path)
                if kept is None or kept[0] != marks:
                    kept = self._kept[path] = (marks, _read(path))
                found.append(kept[1])
            for gone in [path for path in self._kept if not path.exists()]:
                del self._kept[gone]
            return tuple(found)


def _read(path: Path) -> ShownBuild:
    try:
        return read_build(path)
    except BuildRefused as error:
        # Whoever reads the page need not know where the home is.
        return RefusedBuild(id=path.name, reason=str(error).replace(f"{path.parent}/", ""))
    except RecursionError:
        return RefusedBuild(id=path.name, reason="its manifest is nested too deep to be one")


def _marks_of(folder: Path) -> Iterator[tuple[str, int, int, int, int]]:
    """Nothing of a folder that is gone by now."""
    try:
        for entry in os.scandir(folder):
            status = entry.stat(follow_symlinks=False)
            # The time of change, unlike that of modification, cannot be set back by whoever wrote the file.
            yield entry.path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            if entry.is_dir(follow_symlinks=False):
                yield from _marks_of(Path(entry.path))
    except OSError:
        return
