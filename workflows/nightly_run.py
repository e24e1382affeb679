"""NightlyRun: a night of a schedule: its new traffic, a `TuningRun` on it, and the digest of what that came to."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError, is_cancelled_exception

from workflows import queues
from workflows.retries import HEARTBEAT_TIMEOUT, RETRY, USER_FAULTS

with workflow.unsafe.imports_passed_through():
    from candidates.nightly import NightlySchedule
    from workflows.payloads import NightEnd, NightInput, OpenedNight
    from workflows.tuning_run import TuningRun

PATIENCE = RetryPolicy(
    initial_interval=timedelta(seconds=5),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(minutes=5),
    maximum_attempts=8,
    non_retryable_error_types=list(USER_FAULTS),
)
"""For what is out of our hands, an object store or a webhook's receiver: ten minutes, and nobody waits meanwhile."""


@workflow.defn
class NightlyRun:
    @workflow.run
    async def run(self, schedule: NightlySchedule) -> OpenedNight:
        night = NightInput(
            # A schedule's workflows are named by it and by the time; the ledger's ids are parts of paths and addresses.
            night_id=workflow.info().workflow_id.replace(":", ""),
            began_at=workflow.info().start_time,
            schedule=schedule,
        )
        opened, failure = OpenedNight(run=None), None
        try:
            opened = await workflow.execute_activity(
                "collect_traffic",
                night,
                result_type=OpenedNight,
                task_queue=queues.CONTROL,
                start_to_close_timeout=timedelta(hours=12),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=PATIENCE,
            )
            if opened.run is not None:
                await workflow.execute_child_workflow(
                    TuningRun.run, opened.run, id=f"{night.night_id}/tuning", task_queue=queues.CONTROL
                )
        except (ActivityError, ChildWorkflowError) as error:
            if is_cancelled_exception(error):
                raise
            failure = _in_words(error)
        await workflow.execute_activity(
            "conclude_night",
            NightEnd(night=night, failure=failure),
            task_queue=queues.CONTROL,
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=RETRY,
        )
        await self._tell(night.night_id)
        if failure is not None:
            raise ApplicationError(failure, non_retryable=True)
        return opened

    async def _tell(self, night_id: str) -> None:
        """A full disk or a receiver that is away takes nothing from a night that has ended well."""
        for name in ("write_digest", "send_digest"):
            try:
                await workflow.execute_activity(
                    name,
                    night_id,
                    task_queue=queues.CONTROL,
                    start_to_close_timeout=timedelta(minutes=5),
                    retry_policy=PATIENCE,
                )
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                workflow.logger.warning("%s of %s: %s", name, night_id, error.cause)


def _in_words(error: BaseException) -> str:
    """What the activity said that failed, however deep it lies."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ApplicationError):
            return cause.message if cause.type in USER_FAULTS else f"{cause.type}: {cause.message}"
        cause = cause.__cause__
    return str(error.__cause__ or error)
