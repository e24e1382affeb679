"""Which failures are the user's to mend, and what to tell them."""

import errno

from sqlalchemy.exc import DatabaseError, OperationalError

from candidates.benchmark.pairing import MachineTooBusy
from candidates.forge import ForgeBusy, ForgeRefused
from candidates.ledger.blobs import BlobError
from candidates.ledger.copy_ledger import LedgerNotEmpty
from candidates.ledger.database import LedgerUrlError
from candidates.ledger.ledger import LedgerError
from candidates.ledger.object_blobs import BlobsAway, BlobUrlError
from candidates.ledger.schema import RevisionRefused
from candidates.ledger.tables import DoesNotFit
from candidates.problems.problem import ProblemError
from candidates.serving_build.builds import BuildNotFound, NothingToRollBack
from candidates.serving_build.counters import CountersUnreadable
from candidates.serving_build.export_folder import NotOurs
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.signing import SigningKeyFault
from compiler_agent.models.completion import ModelRejectedRequest, ModelUnavailable
from compiler_agent.outcome import UserFault
from compiler_agent.settings import read_home
from compiler_agent.temporal_server import TemporalUnavailable
from kernel_sandbox.sandbox import SandboxUnavailable
from leaderboard.access.tokens import TokenFault
from traces.requests import TraceError
from traces.served_model import ModelError
from traces.sources.fsspec_source import BadSourceUrl
from traces.sources.source import SourceUnavailable

_USER_FAULTS = (
    BadSourceUrl,
    BlobError,
    BlobUrlError,
    BlobsAway,
    BuildNotFound,
    BuildRefused,
    CountersUnreadable,
    DoesNotFit,
    ForgeBusy,
    ForgeRefused,
    LedgerError,
    LedgerNotEmpty,
    MachineTooBusy,
    ModelError,
    ModelRejectedRequest,
    ModelUnavailable,
    NothingToRollBack,
    NotOurs,
    ProblemError,
    RevisionRefused,
    SandboxUnavailable,
    SigningKeyFault,
    SourceUnavailable,
    TemporalUnavailable,
    TokenFault,
    TraceError,
    UserFault,
)

_DAMAGED = ("malformed", "not a database")
_LEDGER_FAULTS = ("disk is full", "readonly database", "unable to open", "is locked")
"""What SQLite says about a file that is not as it should be, rather than about our use of it."""

_POSTGRESQL_RIGHTS = ("42501", "3F000", "25006")
"""SQLSTATEs of PostgreSQL: no right to do so, no schema to create in, a server that only reads."""

_POSTGRESQL_OPTIONS = ("invalid connection option", "bad value for")
"""What its driver says about what follows the `?` in a URL."""


def as_user_fault(error: BaseException) -> str | None:
    """The message for the user, or None for a failure of our own."""
    if isinstance(error, _USER_FAULTS):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error.filename or 'unknown file'}): free space or set COMPILER_AGENT_HOME elsewhere"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS):
        return f"cannot write {error.filename}: choose a writable COMPILER_AGENT_HOME"
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # what `Path.expanduser` says
        return "a path begins with ~ and a name, and this machine has no such user: write it without"
    home = read_home()
    if isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError) and (
        error.filename in (str(folder) for folder in (home, *home.parents)) or (home.exists() and not home.is_dir())
    ):
        return f"cannot make the folder {home} ({error.strerror}): choose another COMPILER_AGENT_HOME"
    if isinstance(error, LedgerUrlError):
        return f"COMPILER_AGENT_LEDGER cannot be used: {error}"
    if isinstance(error, DatabaseError) and type(error.orig).__module__.startswith("psycopg"):
        return _as_postgresql_fault(error, error.orig)
    if isinstance(error, DatabaseError) and any(words in str(error.orig) for words in _DAMAGED):
        return f"cannot use the ledger ({error.orig}): restore a backup, or set COMPILER_AGENT_HOME to another folder"
    if isinstance(error, DatabaseError) and any(words in str(error.orig) for words in _LEDGER_FAULTS):
        return f"cannot use the ledger ({error.orig}): free space or set COMPILER_AGENT_HOME to another writable folder"
    return None


def _as_postgresql_fault(error: DatabaseError, reason: BaseException | None) -> str | None:
    """Its messages name hosts, databases and users, no passwords."""
    said, state = " ".join(str(reason).split()), getattr(reason, "sqlstate", None)
    if state in _POSTGRESQL_RIGHTS:
        return (
            f"cannot write the ledger ({said}): give the user of COMPILER_AGENT_LEDGER the right to create tables in "
            "its database, or name another"
        )
    # No connection has no state. States that begin with 40 are of transactions that were in each other's way: our own.
    is_place = isinstance(error, OperationalError) and not str(state).startswith("40")
    if is_place or (state is None and any(words in said for words in _POSTGRESQL_OPTIONS)):
        return (
            f"cannot use the ledger ({said}): start the server and make the database, or correct COMPILER_AGENT_LEDGER "
            "(postgresql+psycopg://user:password@host/database)"
        )
    return None
