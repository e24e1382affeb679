"""The activity that proposes a run's winners as pull requests, and reads what became of earlier ones."""

from collections.abc import Callable
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from candidates.forge import ForgeBusy
from candidates.ledger.ledger import Ledger
from candidates.pull_requests.desk import PullRequestDesk
from candidates.pull_requests.publish import OutcomeKind
from candidates.run import Progress, Stage
from workflows.payloads import ShipInput
from workflows.retries import USER_FAULTS

_LONGEST_WAIT_S = 60.0
"""Between two tries: a run must not wait an hour for a rate limit. `pr open` does it later."""


class PullRequestActivities:
    def __init__(self, ledger: Ledger, open_desk: Callable[[], PullRequestDesk | None]) -> None:
        """`open_desk` gives None where no repository is configured; it raises what a user has to mend."""
        self._ledger, self._open_desk = ledger, open_desk

    @activity.defn
    def propose_pull_requests(self, ship: ShipInput) -> None:
        """Opens or updates those of the run, after a look at all others; does nothing without a repository."""
        if self._ledger.build_of(ship.run_id) is None:
            return
        try:
            desk = self._open_desk()
            if desk is None:
                return
            report = desk.sync()
            outcomes = (*report.outcomes, *desk.open(ship.run_id))
        except ForgeBusy as busy:
            self._tell(ship.run_id, f"pull requests wait: {busy}")
            delay = timedelta(seconds=min(busy.retry_after_s, _LONGEST_WAIT_S))
            raise ApplicationError(str(busy), type=ForgeBusy.__name__, next_retry_delay=delay) from None
        except Exception as error:  # noqa: BLE001 -- raised again, without what may be secret
            # Only ForgeRefused and UserFault promise a text that has no secret.
            is_said = type(error).__name__ in USER_FAULTS
            why = str(error) if is_said else type(error).__name__
            self._tell(ship.run_id, f"no pull requests: {why}; `compiler-agent pr open {ship.run_id}` tries again")
            raise ApplicationError(why, type=type(error).__name__, non_retryable=is_said) from None
        told = {f"pull request {each.kind.value}: {each.url or each.reason}": each.kind for each in outcomes}
        for message, kind in told.items():
            if kind is not OutcomeKind.UNCHANGED:
                self._tell(ship.run_id, message)
        if report.approval is not None:
            self._tell(ship.run_id, f"build {report.approval.build_id[:12]} {report.approval.kind.value}")

    def _tell(self, run_id: str, message: str) -> None:
        self._ledger.add_progress(run_id, Progress(stage=Stage.END_TO_END, message=message))
