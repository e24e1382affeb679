"""Which failures of an activity are tried again."""

from datetime import timedelta

from temporalio.common import RetryPolicy

USER_FAULTS = (
    "BadSourceUrl",
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
    "SandboxUnavailable",
    "SanitizersUnavailable",
    "SigningKeyFault",
    "TraceError",
    "UserFault",
)
"""Exceptions that only the user can mend, each by its own name (Temporal knows no bases): trying again changes nothing.
"""

RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_attempts=4,
    non_retryable_error_types=list(USER_FAULTS),
)

HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""A killed worker is noticed after this long; `activities.heartbeat` beats four times as often."""
