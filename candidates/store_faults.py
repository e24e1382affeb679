"""What is wrong with where things are written, by names that a retry policy can tell apart; they are OSErrors too."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class StoreFault(OSError):
    """Nothing half-written is left; the same step succeeds once it is mended."""


class DiskFull(StoreFault):
    """No room, or no quota, is left."""


class StoreReadOnly(StoreFault):
    """Nobody may write there."""


_NAMES: dict[int, type[StoreFault]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: StoreReadOnly,
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
}


@contextmanager
def named_faults() -> Iterator[None]:
    """Raises an OSError of writing by its name; others as they are."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreFault) or (name := _NAMES.get(error.errno or 0)) is None:
            raise
        raise name(error.errno, error.strerror, error.filename) from error
