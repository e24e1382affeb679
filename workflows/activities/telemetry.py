"""Telemetry: of every try of an activity a log line with its ids, and a count by how it ended.

Counts go where the process's Temporal SDK sends its own: `compiler_agent.telemetry` says where.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from candidates.agent import Attempt
from candidates.verdict import Rejected
from workflows.activities.about import about, ids_in
from workflows.retries import name_of

ENDS = "compiler_agent_activity_ends"
CANDIDATES = "compiler_agent_candidates"
_DONE = "done"


class Telemetry(Interceptor):
    """Nearest to the activity of all interceptors: it sees the failure itself."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Told(next)


class _Told(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info, ids = activity.info(), ids_in(input.args[0]) if input.args else {}
        began_s, end = time.monotonic(), _DONE
        with about(activity=info.activity_type, **ids):
            try:
                return await super().execute_activity(input)
            except BaseException as error:
                end = name_of(error)
                raise
            finally:
                activity.logger.info(
                    "%s: %s after %.3f s, try %d", info.activity_type, end, time.monotonic() - began_s, info.attempt
                )
                ends = activity.metric_meter().create_counter(ENDS, "Tries of activities, by how they ended.")
                ends.add(1, {"end": end})  # its meter adds the activity's type


@contextmanager
def timed(work: str) -> Iterator[None]:
    """A log line of how long a part of an activity took, waiting for its turn included."""
    began_s = time.monotonic()
    try:
        yield
    finally:
        activity.logger.info("%s took %.3f s", work, time.monotonic() - began_s)


def tell_judged(attempt: Attempt) -> None:
    """Of a candidate that was judged just now, within an activity."""
    verdict = attempt.verdict
    outcome = verdict.reason.value if isinstance(verdict, Rejected) else verdict.outcome
    speed = "" if attempt.speedup is None else f", screened at {attempt.speedup:.2f}x"
    activity.logger.info("judged: %s%s", outcome, speed)
    counter = activity.metric_meter().create_counter(CANDIDATES, "Candidates judged, by verdict or reason.")
    counter.add(1, {"outcome": outcome, "language": attempt.proposal.candidate.language.value})
