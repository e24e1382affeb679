"""Files that are there whole or not at all, also when the disk is full or the process is killed."""

import os
import secrets
from pathlib import Path

from candidates.store_faults import named_faults

PARTIAL = ".partial-"
"""How the name of a file begins that is being written."""


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replaces what was there; makes the folders above. Raises OSError (a full disk and a store that only reads by the
    names of `store_faults`), and then leaves the old file as it was.

    `mode` is less what the umask takes away; it holds from before the first byte.
    """
    with named_faults():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{PARTIAL}{secrets.token_hex(8)}")
        try:
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
