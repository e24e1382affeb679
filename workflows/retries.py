"""Which failures of an activity are tried again, how often, and how long an activity may take.

Temporal has one policy for an activity, whatever it fails by: RETRY allows what the most patient cause is allowed, and
`activities.failures` ends the others earlier, in the worker.
"""

import errno
from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

NIGHT_TAKEN = "NightTaken"

USER_FAULTS = (
    "BadSourceUrl",
    "BlobError",
    "BuildNotFound",
    "BuildRefused",
    "CompilerUnavailable",
    "CountersUnreadable",
    "DeviceError",
    "DoesNotFit",
    "ForgeRefused",
    "LedgerError",
    "ModelError",
    "ModelRejectedRequest",
    "NightElsewhere",
    NIGHT_TAKEN,
    "SandboxUnavailable",
    "SanitizersUnavailable",
    "SigningKeyFault",
    "TraceError",
    "UserFault",
)
"""Exceptions that only the user can mend, each by its own name (Temporal knows no bases): trying again changes nothing.
"""

MACHINERY = (
    "BlobsAway",
    "CallRunning",  # a try that was given up still waits for the model's answer
    "ConnectionError",
    "DisconnectionError",
    "InterfaceError",
    "MachineTooBusy",
    "NotReached",  # a webhook's receiver
    "OperationalError",  # of SQLAlchemy and of its drivers: the database is away, locked, full or read-only
    "RPCError",
    "SandboxError",
    "SourceUnavailable",
    "StoreFault",
    "TimeoutError",
)
"""Exceptions of what comes back by itself, or by somebody's hand while the run waits; those derived from them too."""

_PASSING_ERRNOS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)
)

USER_FAULT_TRIES = 1
BUG_TRIES = 4
"""Of whatever is in no list: most likely our own fault, which a second look rarely mends."""
MACHINERY_TRIES = 36
"""After 1, 2, 4, 8, 16, 32 s and then every minute: half an hour."""

RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(minutes=1),
    # A worker that dies says no cause: its activities have the patience of machinery.
    maximum_attempts=MACHINERY_TRIES,
    non_retryable_error_types=list(USER_FAULTS),
)

HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""A killed worker is noticed after this long; `activities.heartbeat` beats four times as often."""

_HALF_AN_HOUR = timedelta(minutes=30)

LONGEST = {
    # One that is given up while its thread waits for a model is begun again beside it, and pays a second time.
    "propose": timedelta(hours=2),
    "collect_traffic": timedelta(hours=2),
    "gate_build": timedelta(hours=1),
    **dict.fromkeys(
        (
            "check_live",
            "measure_device",
            "propose_pull_requests",
            "rank_hot_ops",
            "replay_traffic",
            "settle_winner",
        ),
        timedelta(minutes=30),
    ),
    **dict.fromkeys(("build_generation", "evaluate_generation"), timedelta(minutes=10)),
    **dict.fromkeys(
        (
            "assemble_build",
            "conclude_exam",
            "conclude_night",
            "conclude_run",
            "conclude_tune",
            "gather_wins",
            "report_best",
            "send_digest",
            "write_digest",
        ),
        timedelta(minutes=5),
    ),
}
"""What one try of an activity may take while its worker lives: more means that it hangs."""


def is_endless(name: str, tries: int, since_first: timedelta) -> bool:
    """Whether an activity that is begun for the `tries`-th time hangs, or takes its worker with it, however often it is
    tried: nothing tells Temporal so, and MACHINERY_TRIES of the longest time would be days."""
    return tries > BUG_TRIES and since_first > BUG_TRIES * LONGEST[name] + _HALF_AN_HOUR


def tries_of(error: BaseException) -> int:
    """How often an activity that fails so is begun in all."""
    names = _names_of(error)
    if any(name in USER_FAULTS for name in names):
        return USER_FAULT_TRIES
    if isinstance(error, OSError) and error.errno in _PASSING_ERRNOS:
        return MACHINERY_TRIES
    return MACHINERY_TRIES if any(name in MACHINERY for name in names) else BUG_TRIES


def name_of(error: BaseException) -> str:
    """Of what in USER_FAULTS it is, or derives from; else its own."""
    names = _names_of(error)
    return next((name for name in names if name in USER_FAULTS), names[0])


def _names_of(error: BaseException) -> list[str]:
    if isinstance(error, ApplicationError) and error.type is not None:
        return [error.type]
    return [kind.__name__ for kind in type(error).__mro__]
