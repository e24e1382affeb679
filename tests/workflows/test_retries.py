"""Which failures of an activity are tried again, and how often.

Temporal compares names, so each must be that of a class.
"""

import asyncio
import contextlib
import dataclasses
import errno
import importlib
import pkgutil
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import OperationalError
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

import workflows.activities
from candidates.builder import CompilerUnavailable
from candidates.forge import ForgeRefused
from candidates.judge.sanitizers import SanitizersUnavailable
from candidates.ledger.blobs import BlobError
from candidates.ledger.faults import LedgerAway
from candidates.ledger.ledger import LedgerError
from candidates.ledger.object_blobs import BlobsAway
from candidates.ledger.tables import DoesNotFit
from candidates.serving_build.builds import BuildNotFound
from candidates.serving_build.counters import CountersUnreadable
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.signing import SigningKeyFault
from candidates.store_faults import StoreReadOnly
from compiler_agent.models.completion import ModelRejectedRequest
from compiler_agent.outcome import UserFault
from kernel_sandbox.sandbox import SandboxError, SandboxUnavailable
from traces.requests import TraceError
from traces.served_model import ModelError
from traces.sources.fsspec_source import BadSourceUrl
from traces.sources.source import SourceUnavailable
from workflows.activities.failures import FailuresByCause
from workflows.activities.nightly import NightElsewhere, NightTaken
from workflows.activities.survey import DeviceError
from workflows.retries import BUG_TRIES, LONGEST, MACHINERY_TRIES, RETRY, USER_FAULTS, tries_of

CLASSES = (
    *(TraceError, ModelError, SandboxUnavailable, CompilerUnavailable, SanitizersUnavailable, LedgerError),
    *(DeviceError, UserFault, ModelRejectedRequest, SigningKeyFault, ForgeRefused, NightElsewhere, NightTaken),
    *(BuildRefused, BuildNotFound, CountersUnreadable, DoesNotFit, BadSourceUrl, BlobError),
)


class AnotherTraceError(TraceError):
    """As somebody may write one tomorrow."""

    __module__ = "tests"


def test_user_faults_are_classes_of_ours():
    assert set(USER_FAULTS) == {each.__name__ for each in CLASSES}
    assert RETRY.non_retryable_error_types == list(USER_FAULTS)


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (CompilerUnavailable("no g++"), 1),
        (AnotherTraceError("unreadable"), 1),
        (OperationalError("SELECT 1", {}, Exception("the server closed the connection")), MACHINERY_TRIES),
        (LedgerAway("SELECT 1", {}, Exception("nobody answers")), MACHINERY_TRIES),
        (BlobsAway("nobody answers"), MACHINERY_TRIES),
        (SourceUnavailable("nobody answers"), MACHINERY_TRIES),
        (StoreReadOnly(errno.EACCES, "Permission denied"), MACHINERY_TRIES),
        (SandboxError("somebody killed it"), MACHINERY_TRIES),
        (ConnectionRefusedError("nobody listens"), MACHINERY_TRIES),
        (OSError(errno.ENOSPC, "No space left on device"), MACHINERY_TRIES),
        (OSError(errno.EROFS, "Read-only file system"), MACHINERY_TRIES),
        (ApplicationError("the database is away", type="OperationalError"), MACHINERY_TRIES),
        (FileNotFoundError(errno.ENOENT, "No such file"), BUG_TRIES),
        (KeyError("an oversight"), BUG_TRIES),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_failure_has_the_tries_of_its_cause(error, tries):
    assert tries_of(error) == tries
    assert not given_up(error, tries - 1)
    assert given_up(error, tries)


def test_half_an_hour_away_is_survived():
    waits_s, wait_s = 0.0, RETRY.initial_interval.total_seconds()
    for _ in range(RETRY.maximum_attempts - 1):
        waits_s += wait_s
        wait_s = min(wait_s * RETRY.backoff_coefficient, RETRY.maximum_interval.total_seconds())
    assert 1800 <= waits_s < 1900


@pytest.mark.parametrize(
    ("tries", "hours", "endless"), [(BUG_TRIES + 1, 2, True), (BUG_TRIES, 9, False), (MACHINERY_TRIES, 0.5, False)]
)
def test_what_was_begun_often_and_for_long_is_begun_no_more(tries, hours, endless):
    """Begun, killed or hung, and begun again: no failure of it is ever told."""
    environment = environment_of("evaluate_generation", tries)
    since = datetime.now(UTC) - timedelta(hours=hours)
    environment.info = dataclasses.replace(environment.info, scheduled_time=since)
    with pytest.raises(ApplicationError, match="never ended") if endless else contextlib.nullcontext():
        served_by(environment, lambda: None)


def test_what_a_user_must_mend_keeps_its_name_and_its_words():
    failure = failure_of(AnotherTraceError("row 3 is cut"), 1)
    assert (failure.type, failure.message, failure.non_retryable) == ("TraceError", "row 3 is cut", True)
    failure = failure_of(KeyError("an oversight"), BUG_TRIES)
    assert failure.message.endswith(f"(the last of {BUG_TRIES} tries)")


def test_every_activity_has_a_longest_time_and_beats():
    modules = (module.name for module in pkgutil.iter_modules(workflows.activities.__path__))
    classes = (
        each
        for name in modules
        for each in vars(importlib.import_module(f"workflows.activities.{name}")).values()
        if isinstance(each, type)
    )
    names = {name for each in classes for name, work in vars(each).items() if hasattr(work, _ACTIVITY)}
    assert names == set(LONGEST)
    beats = []
    environment = environment_of("propose", 1)
    environment.on_heartbeat = lambda *_: beats.append(_)
    served_by(environment, lambda: None)
    assert beats


_ACTIVITY = "__temporal_activity_definition"


def failure_of(error, attempt):
    """What an activity that raises it in this try ends with."""
    environment = environment_of("propose", attempt)

    def fail():
        raise error

    with pytest.raises(Exception) as failure:  # noqa: PT011 -- which one is the question
        served_by(environment, fail)
    return failure.value


def environment_of(activity, attempt):
    environment = ActivityEnvironment()
    now = datetime.now(UTC)
    environment.info = dataclasses.replace(
        environment.info, activity_type=activity, attempt=attempt, scheduled_time=now
    )
    return environment


def given_up(error, attempt):
    failure = failure_of(error, attempt)
    return isinstance(failure, ApplicationError) and failure.non_retryable


def served_by(environment, work):
    """As a worker calls an activity, below the interceptor."""

    class Innermost(ActivityInboundInterceptor):
        def __init__(self):
            pass

        async def execute_activity(self, given):
            return given.fn(*given.args)

    intercepted = FailuresByCause().intercept_activity(Innermost())
    asked = ExecuteActivityInput(fn=work, args=(), executor=None, headers={})
    return asyncio.run(environment.run(intercepted.execute_activity, asked))
