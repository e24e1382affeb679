"""The activities around a nightly run: its traffic before it, and the record of a failure after it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from temporalio import activity

from candidates.file_lock import hold_lock
from candidates.ledger.ledger import Ledger
from candidates.ledger.nights import Nights
from candidates.ledger.run_states import Failed, RunStates
from candidates.nightly import Night, NightFailed, NightRan, NightSkipped
from candidates.run import NightlyRequest
from candidates.serving_build.builds import BuildNotFound, BuildStore
from candidates.serving_build.counted_traffic import read_counted_traffic
from candidates.serving_build.counters import add_up, counted_of
from candidates.serving_build.runtime import BuildRefused
from candidates.whole_file import PARTIAL, write_whole
from traces.formats.read import read_trace
from traces.sources.new_rows import find_new_rows
from traces.sources.source import TrafficSource
from traces.sources.traffic import SeenTraffic
from workflows.payloads import NightEnd, NightInput, OpenedNight, RunInput


class NightTaken(Exception):
    """Another Temporal server began the night of this name on this ledger."""


class NightElsewhere(Exception):
    """Another night of the schedule goes on, which a server lets no two do: there is another server."""


class NightlyActivities:
    def __init__(self, ledger: Ledger, home: Path, open_source: Callable[[str], TrafficSource]) -> None:
        """`open_source` by URL."""
        self._ledger, self._home, self._open_source = ledger, home, open_source
        self._nights = Nights(ledger)

    @property
    def _traffic(self) -> Path:
        return self._home / "traffic"

    @activity.defn
    def collect_traffic(self, ask: NightInput) -> OpenedNight:
        """Takes what is new at the source into the home, and opens the night's run on it."""
        with self._incoming(ask) as incoming:
            # What a killed worker recorded stays: its traffic may be gone from the source meanwhile.
            night = self._nights.find(ask.night_id) or self._nights.add(self._collect(ask, incoming))
        if _is_anothers(night, ask):
            raise NightTaken(
                f"another Temporal server on this ledger began the night {night.id}: schedule {night.schedule.name} is "
                "on both; delete it on one of them"
            )
        if not isinstance(night.outcome, NightRan):
            return OpenedNight(run=None)
        self._ledger.open_run(night.outcome.request, night.id)
        if (other := self._nights.going_on_before(night)) is not None:
            raise NightElsewhere(
                f"{other.id} of this schedule goes on, on another Temporal server: delete the schedule on one of them. "
                "Where it was ended by force, wait until it has said nothing for ten minutes"
            )
        return OpenedNight(run=RunInput(run_id=night.id, device_id=night.schedule.device_id))

    @activity.defn
    def conclude_night(self, end: NightEnd) -> None:
        """Records why it failed, where it did."""
        if end.failure is None:
            return
        failed = Night(
            id=end.night.night_id,
            execution=end.night.execution,
            schedule=end.night.schedule,
            began_at=end.night.began_at,
            outcome=NightFailed(reason=end.failure),
        )
        if not isinstance(self._nights.add(failed).outcome, NightRan):
            return
        run, states = self._ledger.run(failed.id), RunStates(self._ledger)
        if run is not None and not isinstance(states.of([run])[run.run_id], Failed):
            states.put_failure(run.run_id, end.failure)

    def _collect(self, ask: NightInput, incoming: Path) -> Night:
        schedule = ask.schedule
        known = [file for night in self._nights.with_ended_run(schedule.id) for file in night.traffic.files]
        days = schedule.look_back_days
        new = find_new_rows(
            self._open_source(schedule.source),
            known,
            self._traffic,
            incoming,
            schedule.template.trace_format,
            not_before=None if days is None else ask.began_at - timedelta(days=days),
        )
        night = Night(
            id=ask.night_id,
            execution=ask.execution,
            schedule=schedule,
            began_at=ask.began_at,
            traffic=new.traffic,
            outcome=NightSkipped(reason=_too_few(new.traffic, schedule.fewest_requests)),
        )
        if new.traffic.requests < schedule.fewest_requests:
            return night
        traffic, paths = new.keep_in(self._traffic)
        request = schedule.template.model_dump() | {
            "night_id": ask.night_id,
            "traces": tuple(str(path.absolute()) for path in paths),
            "trace_digest": read_trace(paths, schedule.template.trace_format).digest,
        }
        if (counters := self._count(schedule.counters)) is not None:
            request["counters"] = str(counters.absolute())
            request["counters_digest"] = sha256(counters.read_bytes()).hexdigest()
        outcome = NightRan(request=NightlyRequest.model_validate(request))
        return night.model_copy(update={"traffic": traffic, "outcome": outcome})

    def _count(self, folder: str | None) -> Path | None:
        """A copy of what the live build counted; None: nothing is live, or it has not counted."""
        store = BuildStore(self._home)
        try:
            live = None if folder is None else store.current()
            counted = () if folder is None or live is None else counted_of(Path(folder), live)
            if not counted:
                return None
            content = add_up(counted).model_dump_json().encode()
            path = self._traffic / sha256(content).hexdigest() / "counters.json"
            write_whole(path, content)
            read_counted_traffic(path, store)
        except (BuildNotFound, BuildRefused):  # a build that was removed or changed serves nothing
            return None
        return path

    @contextmanager
    def _incoming(self, ask: NightInput) -> Iterator[Path]:
        """An empty folder of this schedule, for one process at a time; what a killed one left in it goes."""
        folder = self._traffic / f"{PARTIAL}{ask.schedule.id}"
        with hold_lock(self._traffic / f".lock-{ask.schedule.id}"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _is_anothers(night: Night, ask: NightInput) -> bool:
    return night.execution not in ("", ask.execution)


def _too_few(traffic: SeenTraffic, fewest: int) -> str:
    found = f"{traffic.requests} new requests, {fewest} are needed" if traffic.requests else "no new requests"
    return found + (f"; {len(traffic.left_out)} files could not be read" if traffic.left_out else "")
