"""Retention: what goes of a ledger and its blobs, and what never does."""

import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.candidate import Candidate, Proposal
from candidates.ledger.blobs import BlobError, BlobStore
from candidates.ledger.check import check_blobs
from candidates.ledger.ledger import Ledger
from candidates.ledger.prune import prune_blobs, prune_progress
from candidates.ledger.retractions import Retractions
from candidates.ledger.tables import PrunedBlobRow
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.run import Progress, SearchEnd, Stage, TuneReport
from candidates.transcript import Transcript, Turn
from candidates.verdict import Accepted, EvidenceKind
from tests.candidates.past_searches import REJECTED, REQUEST, double_task

TASK = double_task()
NOW = datetime.now(UTC)
KEPT_DAYS = 90
BEFORE = NOW - timedelta(days=KEPT_DAYS)
ACCEPTED = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=1, worst_error_in_bounds=0.0)
WON = Gate(name="won", figure=2.0, bound="> 1.03", passed=True)
REPORT = TuneReport(
    run_id="", task=TASK.id, op=TASK.op, decision="lost", candidate=None, best_baseline=None,
    speedup_over_best=None, interval=None, share_of_floor=None, tried=1, reason="", stop_reason="",
    spend_usd=0.0, spend_tokens=0, budget_stops=(), wall_s=1.0,
)  # fmt: skip


class Past:
    """A ledger and a folder of blobs whose ages are told."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder = folder
        self.ledger = Ledger(url or f"sqlite:///{folder / 'ledger.sqlite'}")
        self.blobs = BlobStore(folder / "blobs")
        self.ledger.put_task(TASK)

    def open_run(self, run_id: str, days: float = 0.0) -> None:
        self.ledger.open_run(REQUEST.model_copy(update={"trace_digest": run_id}), run_id)
        self._date("runs", run_id, days)

    def end_run(self, run_id: str, days: float = 0.0) -> None:
        self.ledger.end_run(REPORT.model_copy(update={"run_id": run_id}))
        self._date("run_ends", run_id, days)

    def _date(self, table: str, run_id: str, days: float) -> None:
        with self.ledger.engine.begin() as connection:
            began = {"began": NOW - timedelta(days=days), "run": run_id}
            if connection.dialect.name == "sqlite":
                began["began"] = f"{began['began']:%Y-%m-%d %H:%M:%S}"
            connection.execute(text(f"UPDATE {table} SET recorded_at = :began WHERE run_id = :run"), began)

    def put(self, content: bytes, days: float) -> str:
        digest = self.blobs.put(content)
        self.age(digest, days)
        return digest

    def age(self, digest: str, days: float) -> None:
        then = time.time() - days * 86_400
        os.utime(self.folder / "blobs" / digest[:2] / digest, (then, then))

    def try_out(
        self, source: str, run_id: str = "run-1", *, parents: tuple[str, ...] = (), transcript: str | None = None,
        artifact: str | None = None, is_accepted: bool = False,
    ) -> str:  # fmt: skip
        candidate = Candidate(language="cpp", source=source)
        proposal = Proposal(candidate=candidate, agent="llm", parents=parents, transcript=transcript)
        self.ledger.put_candidate(candidate)
        attempt = Attempt(proposal=proposal, verdict=ACCEPTED if is_accepted else REJECTED)
        self.ledger.put_attempt(run_id, TASK.id, attempt)
        if artifact is not None:
            self.ledger.put_artifact(TASK.id, candidate.id, artifact)
        return candidate.id

    def promote(self, candidate_id: str, run_id: str = "run-1") -> None:
        decision = PromotionDecision(task_id=TASK.id, candidate_id=candidate_id, gates=(WON,))
        self.ledger.put_promotion(run_id, decision)

    def prune(self, *, dry_run: bool = False, shipped: tuple[str, ...] = ()):
        return prune_blobs(self.ledger, self.blobs, before=BEFORE, shipped=shipped, dry_run=dry_run)

    def there(self) -> set[str]:
        return {blob.digest for blob in self.blobs.list()}

    def dialogue(self, name: str, days: float, turns_days: float | None = None) -> tuple[str, set[str]]:
        """Its digest, and those of all its blobs. A turn may be older: the same question was asked before."""
        request, answer = (self.put(f"{what} {name}".encode(), turns_days or days) for what in ("request", "answer"))
        turn = Turn(purpose="draft", call_id=name, endpoint="m", request=request, answer=answer, usd=None)
        digest = self.put(Transcript(turns=(turn,)).model_dump_json().encode(), days)
        return digest, {digest, request, answer}


@pytest.fixture
def past(tmp_path, ledger_url):
    past = Past(tmp_path, ledger_url)
    past.open_run("run-1", days=200)
    return past


def test_blobs_of_candidates_that_won_nothing_go_when_they_are_old(past):
    past.end_run("run-1")
    old, young = past.put(b"old", 91), past.put(b"young", 89)
    for source, artifact in (("a", old), ("b", young)):
        past.try_out(source, artifact=artifact)
    unnamed = past.put(b"a proposal", 91)
    tried = past.prune(dry_run=True)
    assert past.there() == {old, young, unnamed}
    assert past.prune() == tried
    assert (tried.blobs, tried.size_bytes, tried.held_by) == (2, len(b"old") + len(b"a proposal"), ())
    assert past.there() == {young}
    state = check_blobs(past.ledger.engine, past.blobs)
    assert (state.named, state.pruned, state.faults) == (2, 1, 0)
    assert past.prune().blobs == 0


def test_what_a_win_was_made_from_stays(past):
    past.end_run("run-1")
    dialogue, its_blobs = past.dialogue("of the parent", 200)
    parent = past.try_out("parent", transcript=dialogue, artifact=past.put(b"parent", 200))
    won = past.try_out("won", parents=(parent,), artifact=past.put(b"won", 200), is_accepted=True)
    lost_dialogue, _ = past.dialogue("of a loser", 200)
    past.try_out("lost", transcript=lost_dialogue, artifact=past.put(b"lost", 200))
    kept = past.there()
    past.promote(won)
    past.prune()
    assert past.there() == its_blobs | {past.ledger.artifact(TASK.id, won), past.ledger.artifact(TASK.id, parent)}
    assert past.there() < kept
    assert check_blobs(past.ledger.engine, past.blobs).faults == 0


def test_a_dialogue_that_stays_keeps_its_turns_however_old_they_are(past):
    past.end_run("run-1")
    dialogue, its_blobs = past.dialogue("asked before", 10, turns_days=200)
    past.try_out("kernel", transcript=dialogue)
    assert past.prune().blobs == 0
    assert past.there() == its_blobs


@pytest.mark.parametrize("because", ["won", "retracted", "shipped"])
def test_evidence_stays(past, because):
    past.end_run("run-1")
    candidate = past.try_out("kernel", artifact=past.put(b"library", 200))
    if because == "won":
        end = SearchEnd(task_id=TASK.id, op=TASK.op, decision="won", candidate_id=candidate, reason="", tried=1)
        past.ledger.put_search_end("run-1", end)
    if because == "retracted":
        Retractions(past.ledger).put(Retraction(candidate_id=candidate, reason="wrong", by="ann"))
    assert past.prune(shipped=(candidate,) if because == "shipped" else ()).blobs == 0


def test_nothing_goes_that_is_younger_than_a_run_that_has_not_ended(past):
    past.open_run("run-2", days=100)
    past.end_run("run-2")
    (past.put(b"before it", 201), past.put(b"since", 199))
    made = past.prune()
    assert (made.blobs, made.held_by) == (1, ("run-1",))
    past.end_run("run-1")
    assert past.prune().blobs == 1


def test_a_pruned_candidate_that_comes_again_is_built_anew(past):
    past.end_run("run-1")
    candidate = past.try_out("kernel", artifact=past.put(b"library", 91))
    past.prune()
    assert past.ledger.artifact(TASK.id, candidate) is None
    for content in (b"library", b"library of another compiler"):
        digest = past.put(content, 91)
        past.ledger.put_artifact(TASK.id, candidate, digest)
        assert past.ledger.artifact(TASK.id, candidate) == digest
        assert check_blobs(past.ledger.engine, past.blobs).faults == 0
        past.prune()
        assert past.ledger.artifact(TASK.id, candidate) is None


def test_a_blob_that_is_wanted_while_it_is_pruned_stays(past):
    past.end_run("run-1")
    candidate = past.try_out("kernel", artifact=past.put(b"library", 91))

    class Busy(BlobStore):
        def remove(self, blob):
            self.keep(blob.digest)  # a worker that builds the same kernel
            return super().remove(blob)

    past.blobs = Busy(past.folder / "blobs")
    assert past.prune().blobs == 0
    assert past.ledger.artifact(TASK.id, candidate) is not None
    with Session(past.ledger.engine) as session:
        assert session.scalars(select(PrunedBlobRow)).all() == []


def test_lines_of_progress_go_with_time_but_for_the_last(past):
    past.open_run("run-2", days=100)
    past.open_run("run-3", days=100)
    for run_id in ("run-1", "run-2", "run-3", "run-3"):
        past.ledger.add_progress(run_id, Progress(stage=Stage.REPLAY, message="line"))
    past.end_run("run-2", days=91)
    past.end_run("run-3", days=91)
    assert prune_progress(past.ledger, before=BEFORE, dry_run=True) == 2
    assert prune_progress(past.ledger, before=BEFORE, dry_run=False) == 2
    assert [len(past.ledger.progress_after(run_id, 0)) for run_id in ("run-1", "run-2", "run-3")] == [1, 0, 1]
    last = past.ledger.progress_after("run-3", 0)[-1].sequence
    past.ledger.add_progress("run-1", Progress(stage=Stage.REPLAY, message="line"))
    assert past.ledger.progress_after("run-1", last) != ()


ages = st.floats(0, 250)
histories = st.fixed_dictionaries(
    {
        "runs": st.lists(st.tuples(ages, st.booleans()), min_size=1, max_size=3),
        "kernels": st.lists(
            st.fixed_dictionaries(
                {
                    "run": st.integers(0, 2),
                    "parents": st.sets(st.integers(0, 5), max_size=2),
                    "dialogue": st.none() | st.integers(0, 2),
                    "artifact_days": st.none() | ages,
                    "becomes": st.sampled_from(["nothing", "promoted", "retracted", "shipped"]),
                }
            ),
            max_size=6,
        ),
        "dialogues_days": st.lists(st.tuples(ages, ages), min_size=3, max_size=3),
        "unnamed_days": st.lists(ages, max_size=3),
    }
)


@settings(deadline=None, max_examples=12)
@given(history=histories)
def test_whatever_happened_all_that_a_win_needs_is_there_afterwards(history):
    with tempfile.TemporaryDirectory() as folder:
        past = Past(Path(folder))
        for number, (days, has_ended) in enumerate(history["runs"]):
            past.open_run(f"run-{number}", days)
            if has_ended:
                past.end_run(f"run-{number}")
        dialogues = [past.dialogue(str(number), *days) for number, days in enumerate(history["dialogues_days"])]
        needed: dict[str, set[str]] = {}
        made_from: dict[str, set[str]] = {}
        told, shipped = set(), []
        for number, kernel in enumerate(history["kernels"]):
            run = f"run-{kernel['run'] % len(history['runs'])}"
            parents = tuple(list(made_from)[each] for each in sorted(kernel["parents"]) if each < number)
            transcript, blobs = (None, set()) if kernel["dialogue"] is None else dialogues[kernel["dialogue"]]
            days = kernel["artifact_days"]
            artifact = None if days is None else past.put(f"library {number}".encode(), days)
            candidate = past.try_out(f"kernel {number}", run, parents=parents, transcript=transcript, artifact=artifact)
            made_from[candidate] = set(parents)
            needed[candidate] = blobs | ({artifact} if artifact is not None else set())
            match kernel["becomes"]:
                case "promoted":
                    past.promote(candidate, run)
                case "retracted":
                    Retractions(past.ledger).put(Retraction(candidate_id=candidate, reason="wrong", by="ann"))
                case "shipped":
                    shipped.append(candidate)
            if kernel["becomes"] != "nothing":
                told.add(candidate)
        for number, days in enumerate(history["unnamed_days"]):
            past.put(f"unnamed {number}".encode(), days)
        while more := {parent for candidate in told for parent in made_from[candidate]} - told:
            told |= more
        ages_before = {blob.digest: blob.changed_s for blob in past.blobs.list()}
        began = [NOW.timestamp() - days * 86_400 for days, has_ended in history["runs"] if not has_ended]
        attempts = [past.ledger.attempts(f"run-{number}", TASK.id) for number in range(len(history["runs"]))]

        tried = past.prune(dry_run=True, shipped=tuple(shipped))
        assert past.there() == ages_before.keys()
        assert past.prune(shipped=tuple(shipped)) == tried

        gone = ages_before.keys() - past.there()
        assert len(gone) == tried.blobs
        assert not gone & set().union(*(needed[candidate] for candidate in told), set())
        assert all(ages_before[digest] < min([BEFORE.timestamp(), *began]) for digest in gone)
        state = check_blobs(past.ledger.engine, past.blobs)
        assert state.faults == 0, state.shown
        assert [past.ledger.attempts(f"run-{number}", TASK.id) for number in range(len(history["runs"]))] == attempts
        for digest in past.there():
            past.blobs.get(digest)
        for digest in gone:
            with pytest.raises(BlobError):
                past.blobs.get(digest)
        assert past.prune(shipped=tuple(shipped)).blobs == 0
        past.ledger.engine.dispose()
