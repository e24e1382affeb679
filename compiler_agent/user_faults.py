"""Which failures are the user's to mend, and what to tell them."""

import errno

from compiler_agent.outcome import UserFault
from compiler_agent.temporal_server import TemporalUnavailable
from kernel_sandbox.sandbox import SandboxUnavailable
from traces.requests import TraceError
from traces.served_model import ModelError

_USER_FAULTS = (UserFault, TraceError, ModelError, SandboxUnavailable, TemporalUnavailable)


def as_user_fault(error: BaseException) -> str | None:
    """The message for the user, or None for a failure of our own."""
    if isinstance(error, _USER_FAULTS):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error.filename or 'unknown file'}): free space or set COMPILER_AGENT_HOME elsewhere"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS):
        return f"cannot write {error.filename}: choose a writable COMPILER_AGENT_HOME"
    return None
