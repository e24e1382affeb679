"""Failures of a ledger's database that pass, by names that a retry policy can tell apart."""

import errno

from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import OperationalError

from candidates.store_faults import DiskFull, StoreReadOnly

_AWAY_STATES = ("08", "53300", "57P")
"""How SQLSTATEs begin of a server that is not there, has no connection left, or is being stopped or started."""
_FULL_STATE = "53100"
_FULL_NAMES = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")
"""The latter: the file that its processes share has no room."""


class LedgerAway(OperationalError):
    """The database does not answer now. Whether a commit that was under way took place, nobody knows; trying again
    later is right, as writing a fact twice is writing it once."""


def name_fault(context: ExceptionContext) -> BaseException | None:
    """LedgerAway, DiskFull or StoreReadOnly in place of what SQLAlchemy would raise; None: that."""
    said = context.original_exception
    name, state = getattr(said, "sqlite_errorname", ""), getattr(said, "sqlstate", None) or ""
    place = None if context.engine is None else f"the ledger in {context.engine.url.database}"
    if name in _FULL_NAMES or state == _FULL_STATE:
        return DiskFull(errno.ENOSPC, str(said), place)
    if name.startswith("SQLITE_READONLY"):
        return StoreReadOnly(errno.EROFS, str(said), place)
    is_unconnected = context.connection is None and isinstance(context.sqlalchemy_exception, OperationalError)
    if (
        context.is_disconnect
        or name.startswith("SQLITE_BUSY")
        or state.startswith(_AWAY_STATES)
        # What PostgreSQL's driver cannot connect to has no state, whatever the reason.
        or (is_unconnected and not name)
    ):
        # Without its values: they are whole records.
        return LedgerAway(context.statement, None, said, connection_invalidated=context.is_disconnect)
    return None
