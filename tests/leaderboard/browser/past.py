"""make_past: a home that days of use have left: ledger, blobs, builds, counters; every page has something to show.

Nothing in it was ever run. Given hostile words, every text of it that no rule of a record forbids is an attack.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from candidates.ledger import standings
from candidates.ledger.approvals import Approvals
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import RunStates
from candidates.serving_build.builds import BuildStore
from tests.leaderboard.browser.asides import put_asides, put_counters, put_refused_build, put_untried
from tests.leaderboard.browser.nights import first_progress, make_request, put_night, put_search_progress
from tests.leaderboard.browser.other_runs import put_exam, put_tune
from tests.leaderboard.browser.past_kernels import (
    OPS,
    ceilings_of,
    cpu,
    gpu,
)
from tests.leaderboard.browser.past_times import DAY, HOUR, back_date, run_id_of, spread_in_time
from tests.leaderboard.browser.searched import Night, Place
from tests.leaderboard.browser.texts import Say, as_it_is

SHIPPED_FIRST = ("Linear[576,49152]", "LlamaMLP.prefill", "Linear[1536,576].decode")
SHIPPED_LATER = ("LlamaMLP.decode", "Linear[576,49152]", "LlamaMLP.prefill", "Linear[576,576].decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What pages may be asked for."""

    home: Path
    op: str
    device_id: str
    candidate: str
    rival: str
    """Another of the same task."""
    rejected: str
    untried: str
    """Known, and never judged."""
    with_transcript: str
    ended: str
    tuned: str
    exam: str
    failed: str
    running: str
    live_build: str
    build_before: str
    refused_build: str
    """Somebody changed it."""

    @property
    def ledger(self) -> Ledger:
        return Ledger(f"sqlite:///{self.home / 'ledger.sqlite'}")


def make_past(home: Path, say: Say = as_it_is) -> Past:
    """`home` is empty."""
    place = Place(
        ledger=Ledger(f"sqlite:///{home / 'ledger.sqlite'}"), blobs=BlobStore(home / "blobs"), home=home, say=say
    )
    for device in (cpu(say), gpu(say)):
        place.ledger.put_device(device)
        place.ledger.put_ceilings(ceilings_of(device))
    first = put_night(place, run_id_of("run", 3 * DAY, 4327), 1, ops=OPS[2:], shipped=SHIPPED_FIRST)
    _approve(place, first, "ann")
    back_date(place, 3 * DAY - 31 * HOUR)
    exam = put_exam(place, first)
    back_date(place, HOUR)
    tuned = put_tune(place)
    back_date(place, 24 * HOUR)
    later = put_night(place, run_id_of("run", 6 * HOUR, 8101), 2, shipped=SHIPPED_LATER)
    _approve(place, later, "bob")
    put_asides(place, first, later)
    put_counters(place, later)
    back_date(place, 5 * HOUR)
    failed = _put_failed(place)
    back_date(place, HOUR)
    running = _put_running(place)
    spread_in_time(place.ledger)
    with Session(place.ledger.engine) as session, session.begin():
        standings.rebuild(session)
    assert first.build is not None
    assert later.build is not None
    mlp = later.searches[0]
    tried = place.ledger.attempts(later.run_id, mlp.task.id)
    return Past(
        home=home,
        op=mlp.task.op,
        device_id=mlp.task.device_id,
        candidate=mlp.best.id,
        rival=tried[0].proposal.candidate.id,
        rejected=tried[-2].proposal.candidate.id,
        untried=put_untried(place),
        with_transcript=later.transcript_of,
        ended=later.run_id,
        tuned=tuned,
        exam=exam,
        failed=failed,
        running=running,
        live_build=later.build.id,
        build_before=first.build.id,
        refused_build=put_refused_build(place, later),
    )


def _put_running(place: Place) -> str:
    """A run amid its search."""
    run_id = run_id_of("run", timedelta(0), 777)
    place.ledger.open_run(make_request(place.say, 4), run_id)
    for progress in first_progress(place.say):
        place.ledger.add_progress(run_id, progress)
    for op in OPS[:3]:
        put_search_progress(place.ledger, run_id, op, place.say)
    return run_id


def _approve(place: Place, night: Night, by: str) -> None:
    assert night.build is not None
    approval = BuildStore(place.home).approve(night.build.id, by=place.say(by))
    Approvals(place.ledger).put(approval)


def _put_failed(place: Place) -> str:
    run_id = run_id_of("run", HOUR, 2211)
    place.ledger.open_run(make_request(place.say, 3), run_id)
    for progress in first_progress(place.say)[:2]:
        place.ledger.add_progress(run_id, progress)
    message = "no room left on /var: 1.2 GB are needed for the model, 0.3 GB are free"
    RunStates(place.ledger).put_failure(run_id, place.say(message))
    return run_id
