"""A night of a schedule on a real server: one run on what is new, or a reason why there is none."""

import asyncio
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer

from candidates.ledger.ledger import Ledger
from candidates.ledger.nights import Nights
from candidates.ledger.run_states import Failed, RunStates
from candidates.nightly import Night, NightFailed, NightlySchedule, NightRan, NightSkipped
from candidates.run import NightlyRequest, RunRequest
from candidates.whole_file import PARTIAL
from tests.workflows.night_shift import NightShift, report_of
from traces.formats.read import read_trace
from traces.sources.fsspec_source import FsspecSource
from workflows import queues
from workflows.activities.nightly import NightlyActivities
from workflows.nightly_run import NightlyRun
from workflows.payloads import NightInput

HEADER = json.dumps({"format": "compiler-agent-requests", "version": 1, "block_tokens": None})


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def ledger(tmp_path):
    return Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")


@pytest.fixture
def log(tmp_path):
    """Appends requests to what production writes."""
    path = tmp_path / "serving" / "requests.jsonl"
    path.parent.mkdir()
    path.write_text(HEADER + "\n")

    def append(*prompt_tokens: int) -> None:
        with path.open("a") as file:
            for tokens in prompt_tokens:
                file.write(json.dumps({"arrival_s": 1.0, "prompt_tokens": tokens, "output_tokens": 1}) + "\n")

    return append


@pytest.fixture
def schedule(tmp_path):
    return NightlySchedule(
        name="chat",
        cron="0 2 * * *",
        time_zone="UTC",
        source=f"file://{tmp_path / 'serving'}",
        device_id=f"cpu-{uuid.uuid4().hex[:12]}",
        template=RunRequest(traces=(), trace_digest="", model="tiny", hot_ops=3),
        fewest_requests=2,
    )


@pytest.fixture
def shift(server_address, home, ledger, schedule):
    with NightShift(server_address, home, ledger, schedule.device_id) as shift:
        yield shift


async def begin_night(shift, schedule, name):
    client = await shift.client()
    return await client.start_workflow(NightlyRun.run, schedule, id=name, task_queue=queues.CONTROL)


def spend_night(shift, schedule, name):
    async def spend():
        return await (await begin_night(shift, schedule, name)).result()

    return asyncio.run(spend())


def prompts_of(ledger, night_id):
    request = ledger.run_request(night_id)
    trace = read_trace([Path(path) for path in request.traces])
    assert trace.digest == request.trace_digest
    return [each.prompt_tokens for each in trace.requests]


def test_a_night_is_one_run_on_the_new_requests_with_a_record_of_them(shift, ledger, log, schedule):
    log(5, 6)
    assert spend_night(shift, schedule, "n-1T020000Z").run.run_id == "n-1T020000Z"
    log(7, 8, 9)
    spend_night(shift, schedule, "n-2")
    assert [run.run_id for run in ledger.runs()] == ["n-2", "n-1T020000Z"]
    assert prompts_of(ledger, "n-1T020000Z") == [5, 6]
    assert prompts_of(ledger, "n-2") == [7, 8, 9]
    assert ledger.report("n-2") == report_of("n-2")
    night = Nights(ledger).find("n-2")
    (file,) = night.traffic.files
    assert (file.name, file.rows_before, file.rows, file.requests) == ("requests.jsonl", 2, 3, 3)
    request = night.outcome.request
    assert isinstance(request, NightlyRequest)
    assert (request.hot_ops, request.model, request.night_id) == (3, "tiny", "n-2")


def test_nights_in_flight_replay(shift, log, schedule):
    log(5, 6)
    spend_night(shift, schedule, "n-1")

    async def replay():
        client = await shift.client()
        history = await client.get_workflow_handle("n-1").fetch_history()
        await Replayer(workflows=[NightlyRun], data_converter=pydantic_data_converter).replay_workflow(history)

    asyncio.run(replay())


def test_too_few_new_requests_skip_a_night_and_count_with_the_next(shift, ledger, log, schedule):
    log(5)
    assert spend_night(shift, schedule, "n-1").run is None
    assert Nights(ledger).find("n-1").outcome == NightSkipped(reason="1 new requests, 2 are needed")
    assert ledger.count_runs() == 0
    log(6)
    spend_night(shift, schedule, "n-2")
    assert prompts_of(ledger, "n-2") == [5, 6]
    spend_night(shift, schedule, "n-3")
    assert Nights(ledger).find("n-3").outcome == NightSkipped(reason="no new requests")


def test_traffic_of_a_run_that_failed_is_new_to_the_next_night(shift, ledger, log, schedule):
    log(5, 6)
    shift.quick.fault = type("TraceError", (Exception,), {})("the disk is broken")
    with pytest.raises(WorkflowFailureError):
        spend_night(shift, schedule, "n-1")
    run = ledger.run("n-1")
    state = RunStates(ledger).of([run])["n-1"]
    assert isinstance(state, Failed)
    assert state.message == "the disk is broken"
    shift.quick.fault = None
    spend_night(shift, schedule, "n-2")
    assert prompts_of(ledger, "n-2") == [5, 6]


def test_a_source_that_nobody_can_read_fails_the_night_and_says_why(shift, ledger, schedule):
    with pytest.raises(WorkflowFailureError):
        spend_night(shift, schedule.model_copy(update={"source": "gopher://x"}), "n-1")
    outcome = Nights(ledger).find("n-1").outcome
    assert isinstance(outcome, NightFailed)
    assert "gopher" in outcome.reason


def test_what_a_killed_worker_recorded_is_gone_on_with(home, ledger, log, schedule, tmp_path):
    """The attempt after it sees other traffic, and runs on what was recorded all the same."""
    log(5, 6)
    activities = NightlyActivities(ledger, home, FsspecSource)
    ask = NightInput(night_id="n-1", began_at="2026-01-01T02:00:00Z", schedule=schedule)
    left = home / "traffic" / f"{PARTIAL}{schedule.id}" / "file"
    left.parent.mkdir(parents=True)
    left.write_text("of a killed worker")
    first = ActivityEnvironment().run(activities.collect_traffic, ask)
    log(7)
    assert ActivityEnvironment().run(activities.collect_traffic, ask) == first
    assert prompts_of(ledger, "n-1") == [5, 6]
    assert ledger.count_runs() == 1
    assert isinstance(Nights(ledger).find("n-1").outcome, NightRan)
    assert not left.parent.exists()


def test_two_workers_that_collect_the_same_night_open_one_run(home, ledger, log, schedule):
    """One was given up for dead and lives."""
    log(5, 6)
    ask = NightInput(night_id="n-1", began_at="2026-01-01T02:00:00Z", schedule=schedule)

    def collect(_):
        activities = NightlyActivities(ledger, home, FsspecSource)
        return ActivityEnvironment().run(activities.collect_traffic, ask)

    with ThreadPoolExecutor(4) as workers:
        assert len(set(workers.map(collect, range(4)))) == 1
    assert ledger.count_runs() == 1
    assert len(list((home / "traffic").glob("*/serving.trace"))) == 1


def test_people_are_told_of_every_night(shift, home, ledger, log, schedule):
    spend_night(shift, schedule, "n-1")
    log(5, 6)
    shift.quick.fault = type("DeviceError", (Exception,), {})("another device")
    with pytest.raises(WorkflowFailureError):
        spend_night(shift, schedule, "n-2")
    shift.quick.fault = None
    spend_night(shift, schedule, "n-3")
    assert [text.splitlines()[0].split("UTC: ")[1] for text in shift.posted] == ["skipped", "failed", "nothing shipped"]
    assert "no new requests" in shift.posted[0]
    assert "another device" in shift.posted[1]
    assert "no new requests" in shift.posted[1]  # the night before it
    for name, text in zip(("n-1", "n-2", "n-3"), shift.posted, strict=True):
        assert (home / "digests" / f"{name}.md").read_text() == f"{text}\n"


def test_a_receiver_that_takes_nothing_takes_nothing_from_the_night(shift, home, ledger, log, schedule):
    log(5, 6)
    shift.post_fault = type("UserFault", (Exception,), {})("the address is wrong")
    assert spend_night(shift, schedule, "n-1").run is not None
    assert (home / "digests" / "n-1.md").exists()


def test_nights_of_schedules_with_one_source_know_nothing_of_each_other(shift, ledger, log, schedule):
    log(5, 6)
    other = schedule.model_copy(update={"template": schedule.template.model_copy(update={"model": "other"})})
    assert other.id != schedule.id
    spend_night(shift, schedule, "n-1")
    spend_night(shift, other, "n-2")
    assert prompts_of(ledger, "n-1") == prompts_of(ledger, "n-2") == [5, 6]


@pytest.fixture
def two_servers(server_address, tmp_path, ledger_url, schedule):
    """Temporal servers with homes of their own and one ledger: namespaces, which know no more of each other."""
    ledger = Ledger(ledger_url)
    with (
        NightShift(server_address, tmp_path / "one", ledger, schedule.device_id) as one,
        NightShift(server_address, tmp_path / "other", ledger, schedule.device_id) as other,
    ):
        yield ledger, one, other


@pytest.mark.parametrize(
    ("name", "words"), [("n-1", "another Temporal server"), ("n-2", "n-1 of this schedule goes on")]
)
def test_of_two_servers_that_have_one_schedule_one_spends_the_night(two_servers, log, schedule, name, words):
    """Their nights have one name where both begin in the same second."""
    ledger, one, other = two_servers
    log(5, 6)
    one.quick.may_end.clear()

    async def spend_both():
        first = await begin_night(one, schedule, "n-1")
        while not one.quick.replayed:
            await asyncio.sleep(0.05)
        second = await begin_night(other, schedule, name)
        with pytest.raises(WorkflowFailureError) as refused:
            await second.result()
        one.quick.may_end.set()
        await first.result()
        return str(refused.value.cause)

    assert words in asyncio.run(spend_both())
    assert (one.quick.replayed, other.quick.replayed) == (["n-1"], [])
    assert [run.run_id for run in ledger.runs() if run.report is not None] == ["n-1"]
    assert [text.splitlines()[0].split("UTC: ")[1] for text in one.posted] == ["nothing shipped"]
    assert len(other.posted) == (name == "n-2")
    spend_night(other, schedule, "n-3")
    assert Nights(ledger).find("n-3").outcome == NightSkipped(reason="no new requests")


def test_of_two_servers_that_begin_a_night_at_once_one_spends_it(two_servers, log, schedule):
    ledger, *shifts = two_servers
    log(5, 6)
    for shift in shifts:
        shift.quick.may_end.clear()

    async def spend_both():
        begun = [await begin_night(shift, schedule, f"n-{number}") for number, shift in enumerate(shifts)]
        while not any(shift.quick.replayed for shift in shifts) or len(ledger.runs()) < len(shifts):
            await asyncio.sleep(0.05)
        loser = next(night for night, shift in zip(begun, shifts, strict=True) if not shift.quick.replayed)
        with pytest.raises(WorkflowFailureError):
            await loser.result()
        for shift in shifts:
            shift.quick.may_end.set()
        await asyncio.gather(*(night.result() for night in begun if night is not loser))

    asyncio.run(spend_both())
    assert len([run for run in ledger.runs() if run.report is not None]) == 1
    assert sum(len(shift.quick.replayed) for shift in shifts) == 1


def test_nights_are_found_again_on_every_database(ledger_url, schedule):
    ledger = Ledger(ledger_url)
    nights = Nights(ledger)

    def night(name, outcome):
        return Night(id=name, schedule=schedule, began_at="2026-01-01T02:00:00Z", outcome=outcome)

    request = NightlyRequest(**schedule.template.model_dump() | {"night_id": "n-1"})
    ran = nights.add(night("n-1", NightRan(request=request)))
    assert nights.add(night("n-1", NightSkipped(reason="another word"))) == ran
    assert nights.with_ended_run(schedule.id) == ()
    ledger.open_run(request, "n-1")
    ledger.end_run(report_of("n-1"))
    assert nights.with_ended_run(schedule.id) == (ran,)
    skipped = [nights.add(night(f"n-{number}", NightSkipped(reason="no"))) for number in (2, 3)]
    latest = nights.add(night("n-4", NightFailed(reason="no server")))
    assert nights.latest(schedule.id, limit=2) == (latest, skipped[1])
    assert nights.without_run_before(latest, limit=10) == tuple(reversed(skipped))
    assert nights.without_run_before(ran, limit=10) == ()
