"""Files that are there whole or not at all, also when the disk is full or the process is killed."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replaces what was there; makes the folders above. Raises OSError, and then leaves the old file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".partial-{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
