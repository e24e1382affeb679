"""The activities that tell people of a night: its digest into a file, and to a receiver if one is configured."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from temporalio import activity

from candidates.ledger.deliveries import Delivered, Deliveries, Failed, GivenUp
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.model_calls import ModelCalls
from candidates.ledger.nights import Nights
from candidates.ledger.run_states import Failed as FailedRun
from candidates.ledger.run_states import RunStates
from candidates.nightly import Night, NightFailed
from candidates.nightly_digest import DigestFacts, write_digest
from candidates.run import RunReport
from candidates.spending import run_account
from candidates.whole_file import write_whole

_MOST_NIGHTS = 50


class NotReached(Exception):
    """The receiver did not take it; another time it may. The message holds no address: they are secrets."""


class Unanswered(Exception):
    """Nobody knows whether the receiver got it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestReceiver:
    url: str = field(repr=False)
    post: Callable[[str, str], str]
    """Address and Markdown to how it was taken. Raises NotReached and Unanswered."""

    @property
    def digest(self) -> str:
        """What the ledger knows it by: addresses may hold keys."""
        return hashlib.sha256(self.url.encode()).hexdigest()


class DigestActivities:
    def __init__(
        self,
        ledger: Ledger,
        home: Path,
        *,
        receiver: DigestReceiver | None = None,
        page_of: Callable[[str], str | None] = lambda run_id: None,
        usd_per_device_hour: float | None = None,
    ) -> None:
        """`page_of` a run on the leaderboard."""
        self._ledger, self._folder = ledger, home / "digests"
        self._receiver, self._page_of, self._usd_per_device_hour = receiver, page_of, usd_per_device_hour

    @activity.defn
    def write_digest(self, night_id: str) -> None:
        """Of what is in the ledger now, so that it may be written again."""
        write_whole(self._folder / f"{night_id}.md", f"{self._text(night_id)}\n".encode())

    @activity.defn
    def send_digest(self, night_id: str) -> None:
        """At most once: what was claimed and came to no known end, because its process was killed, is not sent again.

        Raises NotReached, to be tried again.
        """
        if self._receiver is None:
            return
        event_id, deliveries = f"digest-{night_id}", Deliveries(self._ledger, self._receiver.digest)
        last = deliveries.last_attempts([event_id]).get(event_id)
        if last is not None and not isinstance(last.outcome, Failed):
            return
        attempt = 1 if last is None else last.attempt + 1
        text = self._text(night_id)
        if not deliveries.claim(event_id, attempt, datetime.now(UTC)):
            return
        try:
            said = self._receiver.post(self._receiver.url, text)
        except Unanswered as error:
            deliveries.settle(event_id, attempt, GivenUp(message=str(error)))
        except NotReached as error:
            deliveries.settle(event_id, attempt, Failed(message=str(error), retry_at=datetime.now(UTC)))
            raise
        else:
            deliveries.settle(event_id, attempt, Delivered(message=said))

    def _text(self, night_id: str) -> str:
        nights = Nights(self._ledger)
        night = nights.find(night_id)
        if night is None:
            raise LedgerError(f"night {night_id} is not in the ledger")
        run = self._ledger.run(night_id)
        report = None if run is None else run.report
        facts = DigestFacts(
            night=night,
            report=report if isinstance(report, RunReport) else None,
            failure=self._failure(night),
            spend_usd=ModelCalls(self._ledger).used(run_account(night_id)).usd,
            without_run=nights.without_run_before(night, limit=_MOST_NIGHTS),
            page=None if run is None else self._page_of(night_id),
            usd_per_device_hour=self._usd_per_device_hour,
        )
        return write_digest(facts)

    def _failure(self, night: Night) -> str | None:
        if isinstance(night.outcome, NightFailed):
            return night.outcome.reason
        run = self._ledger.run(night.id)
        state = None if run is None else RunStates(self._ledger).of([run])[run.run_id]
        return state.message if isinstance(state, FailedRun) else None
