"""Which failures are the user's to mend, and what to tell them."""

import errno

from sqlalchemy.exc import DatabaseError

from candidates.benchmark.pairing import MachineTooBusy
from candidates.forge import ForgeBusy, ForgeRefused
from candidates.ledger.ledger import LedgerError
from candidates.problems.problem import ProblemError
from candidates.serving_build.builds import BuildNotFound, NothingToRollBack
from candidates.serving_build.counters import CountersUnreadable
from candidates.serving_build.export_folder import NotOurs
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.signing import SigningKeyFault
from compiler_agent.models.completion import ModelRejectedRequest, ModelUnavailable
from compiler_agent.outcome import UserFault
from compiler_agent.settings import read_settings
from compiler_agent.temporal_server import TemporalUnavailable
from kernel_sandbox.sandbox import SandboxUnavailable
from leaderboard.tokens import TokenFault
from traces.requests import TraceError
from traces.served_model import ModelError

_USER_FAULTS = (
    BuildNotFound,
    BuildRefused,
    CountersUnreadable,
    ForgeBusy,
    ForgeRefused,
    LedgerError,
    MachineTooBusy,
    ModelError,
    ModelRejectedRequest,
    ModelUnavailable,
    NothingToRollBack,
    NotOurs,
    ProblemError,
    SandboxUnavailable,
    SigningKeyFault,
    TemporalUnavailable,
    TokenFault,
    TraceError,
    UserFault,
)

_LEDGER_FAULTS = ("disk is full", "readonly database", "not a database", "unable to open", "is locked")
"""What SQLite says about a file that is not as it should be, rather than about our use of it."""


def as_user_fault(error: BaseException) -> str | None:
    """The message for the user, or None for a failure of our own."""
    if isinstance(error, _USER_FAULTS):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error.filename or 'unknown file'}): free space or set COMPILER_AGENT_HOME elsewhere"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS):
        return f"cannot write {error.filename}: choose a writable COMPILER_AGENT_HOME"
    home = read_settings().home
    if isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError) and error.filename in (
        str(folder) for folder in (home, *home.parents)
    ):
        return f"cannot make the folder {home} ({error.strerror}): choose another COMPILER_AGENT_HOME"
    if isinstance(error, DatabaseError) and any(words in str(error.orig) for words in _LEDGER_FAULTS):
        return f"cannot use the ledger ({error.orig}): free space or set COMPILER_AGENT_HOME to another writable folder"
    return None
