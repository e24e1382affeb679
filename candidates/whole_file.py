"""Files that are there whole or not at all, also when the disk is full or the process is killed."""

import contextlib
import errno
import os
import secrets
from pathlib import Path

from candidates.store_faults import named_faults

PARTIAL = ".partial-"
"""How the name of a file begins that is being written."""
_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR)
"""Of file systems, and of kernels, without files that have no name."""


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replaces what was there; makes the folders above. Raises OSError (a full disk and a store that only reads by the
    names of `store_faults`), and then leaves the old file as it was.

    `mode` is less what the umask takes away; it holds from before the first byte. What a killed process was writing
    goes with it, where the file system has files without a name.
    """
    with named_faults():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{PARTIAL}{secrets.token_hex(8)}")
        try:
            with open(_open(unfinished, mode), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if not os.fstat(file.fileno()).st_nlink:
                    with contextlib.suppress(FileExistsError):
                        _name(file.fileno(), path)
                        return
                    _name(file.fileno(), unfinished)  # only a rename replaces
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _open(path: Path, mode: int) -> int:
    """A new file in the folder of `path`, without a name if it can be, else with that."""
    try:
        return os.open(path.parent, os.O_WRONLY | os.O_TMPFILE, mode)
    except OSError as error:
        if error.errno not in _NO_UNNAMED:
            raise
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def _name(descriptor: int, path: Path) -> None:
    """Raises FileExistsError."""
    # Only with a folder Python asks for the file behind the link, and not for the link (open(2), O_TMPFILE).
    folder = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY)
    try:
        os.link(str(descriptor), path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
