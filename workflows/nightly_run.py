"""NightlyRun: a night of a schedule: its new traffic, a `TuningRun` on it, and the digest of what that came to."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError, is_cancelled_exception

from workflows import queues
from workflows.perform import perform
from workflows.retries import NIGHT_TAKEN, USER_FAULTS

with workflow.unsafe.imports_passed_through():
    from candidates.nightly import NightlySchedule
    from workflows.payloads import NightEnd, NightInput, OpenedNight
    from workflows.tuning_run import TuningRun


@workflow.defn
class NightlyRun:
    @workflow.run
    async def run(self, schedule: NightlySchedule) -> OpenedNight:
        night = NightInput(
            # A schedule's workflows are named by it and by the time; the ledger's ids are parts of paths and addresses.
            night_id=workflow.info().workflow_id.replace(":", ""),
            execution=workflow.info().first_execution_run_id,
            began_at=workflow.info().start_time,
            schedule=schedule,
        )
        opened, failure = OpenedNight(run=None), None
        try:
            opened = await perform("collect_traffic", night, queues.CONTROL, OpenedNight)
            if opened.run is not None:
                await workflow.execute_child_workflow(
                    TuningRun.run, opened.run, id=f"{night.night_id}/tuning", task_queue=queues.CONTROL
                )
        except (ActivityError, ChildWorkflowError) as error:
            if is_cancelled_exception(error):
                raise
            failure = _in_words(error)
            if _kind_of(error) == NIGHT_TAKEN:  # what is to be recorded and told of it, others do
                raise ApplicationError(failure, non_retryable=True) from error
        await perform("conclude_night", NightEnd(night=night, failure=failure), queues.CONTROL)
        await self._tell(night.night_id)
        if failure is not None:
            raise ApplicationError(failure, non_retryable=True)
        return opened

    async def _tell(self, night_id: str) -> None:
        """A full disk or a receiver that is away takes nothing from a night that has ended well."""
        for name in ("write_digest", "send_digest"):
            try:
                await perform(name, night_id, queues.CONTROL)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                workflow.logger.warning("%s of %s: %s", name, night_id, error.cause)


def _in_words(error: BaseException) -> str:
    """What the activity said that failed, however deep it lies."""
    said = _said(error)
    if said is None:
        return str(error.__cause__ or error)
    return said.message if said.type in USER_FAULTS else f"{said.type}: {said.message}"


def _kind_of(error: BaseException) -> str | None:
    said = _said(error)
    return None if said is None else said.type


def _said(error: BaseException) -> ApplicationError | None:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ApplicationError):
        cause = cause.__cause__
    return cause
