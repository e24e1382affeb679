"""FailuresByCause: every activity beats while it works, and gives up as soon as what it failed by has had its tries."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from workflows.activities.heartbeat import beating
from workflows.retries import MACHINERY_TRIES, is_endless, name_of, tries_of


class FailuresByCause(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _ByCause(next)


class _ByCause(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        _refuse_endless(activity.info())
        if not inspect.iscoroutinefunction(input.fn):
            input.fn = _with_beats(input.fn)
        try:
            return await super().execute_activity(input)
        except (CancelledError, asyncio.CancelledError):
            raise
        except Exception as error:
            tries, begun = tries_of(error), activity.info().attempt
            if begun < tries and not (isinstance(error, ApplicationError) and error.non_retryable):
                if tries == MACHINERY_TRIES:
                    activity.logger.warning(
                        "%s: try %d of %d ended with %s: %s",
                        activity.info().activity_type, begun, tries, name_of(error), error,
                    )  # fmt: skip
                raise
            message = str(error) if begun == 1 else f"{error} (the last of {begun} tries)"
            raise ApplicationError(message, type=name_of(error), non_retryable=True) from error


def _refuse_endless(asked: activity.Info) -> None:
    since_first = datetime.now(UTC) - asked.scheduled_time
    if is_endless(asked.activity_type, asked.attempt, since_first):
        raise ApplicationError(
            f"{asked.activity_type} was begun {asked.attempt - 1} times in {since_first} and never ended: it hangs, or "
            "its worker dies of it; see the worker's log",
            type="NeverEnds",
            non_retryable=True,
        )


def _with_beats(work: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(work)
    def beat_and_work(*given: Any) -> Any:
        with beating():
            return work(*given)

    return beat_and_work
