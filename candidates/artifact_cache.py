"""ArtifactCache: what builds left, by the content of all that went into them; a folder of the host.

An artifact is bytes that a candidate may have chosen: it is kept and given out as it is, never opened.
"""

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from candidates.language import BuildRecipe
from candidates.record import digest_of
from candidates.whole_file import write_whole

MOST_BYTES = 2 << 30
_DIGEST_BYTES = hashlib.sha256().digest_size


class ArtifactCache:
    """Safe to share between threads and processes. Past `most_bytes` what was longest unused goes."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    def get(self, recipe: BuildRecipe) -> bytes | None:
        """None for a recipe without `toolchain`, for what was never built, and for an entry that is damaged."""
        if recipe.toolchain is None:
            return None
        path = self._path(recipe)
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        digest, artifact = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
        if hashlib.sha256(artifact).digest() != digest:
            return None
        with contextlib.suppress(OSError):
            path.touch()  # the age of an entry is when it was last used
        return artifact

    def put(self, recipe: BuildRecipe, artifact: bytes) -> None:
        """Keeps nothing of a recipe without `toolchain`. Raises OSError for a folder that cannot be written."""
        if recipe.toolchain is not None:
            write_whole(self._path(recipe), hashlib.sha256(artifact).digest() + artifact)
            self._drop_unused()

    def _path(self, recipe: BuildRecipe) -> Path:
        return self._folder / digest_of(
            {
                "files": {name: hashlib.sha256(content).hexdigest() for name, content in recipe.files.items()},
                "commands": recipe.commands,
                "artifact": recipe.artifact,
                "toolchain": recipe.toolchain,
            }
        )

    def _drop_unused(self) -> None:
        total_bytes = 0
        for path, size_bytes in _newest_first(list(self._folder.iterdir())):
            total_bytes += size_bytes
            if total_bytes > self._most_bytes:
                path.unlink(missing_ok=True)


def _newest_first(paths: Sequence[Path]) -> list[tuple[Path, int]]:
    """With their sizes in bytes."""
    found = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another process dropped it
            status = path.stat()
            found.append((status.st_mtime_ns, path, status.st_size))
    return [(path, size_bytes) for _, path, size_bytes in sorted(found, reverse=True)]
