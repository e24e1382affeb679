"""`schedule` on a real server: what there may be one of, nights that never overlap, and what a user gets who errs."""

import asyncio
import json
import threading
import time
from datetime import timedelta

import pytest
from temporalio.client import ScheduleOverlapPolicy

from candidates.ceilings import fingerprint_device
from candidates.ledger.ledger import Ledger
from candidates.ledger.nights import Nights
from compiler_agent.main import run_command
from tests.workflows.night_shift import NightShift

HEADER = json.dumps({"format": "compiler-agent-requests", "version": 1, "block_tokens": None})


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def ledger(home):
    return Ledger(f"sqlite:///{home / 'ledger.sqlite'}")


@pytest.fixture
def shift(server_address, home, ledger, monkeypatch):
    with NightShift(server_address, home, ledger, fingerprint_device().id) as shift:
        monkeypatch.setenv("COMPILER_AGENT_HOME", str(home))
        monkeypatch.setenv("COMPILER_AGENT_TEMPORAL", server_address)
        monkeypatch.setenv("COMPILER_AGENT_TEMPORAL_NAMESPACE", shift.namespace)
        yield shift


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def serving(tmp_path):
    folder = tmp_path / "serving"
    folder.mkdir()
    row = json.dumps({"arrival_s": 1.0, "prompt_tokens": 5, "output_tokens": 1})
    (folder / "a.jsonl").write_text(f"{HEADER}\n{row}\n")
    return folder


@pytest.fixture
def command(capsys):
    """Of the program, in this process: its exit code, and what it printed on each stream."""

    def run_here(*arguments):
        code = run_command(["schedule", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_here


@pytest.fixture
def create(command, serving, model):
    def create_here(name="chat", *more, cron="0 2 * * *", source=None):
        options = ("--cron", cron, "--source", source or serving, "--model", model, "--fewest-requests", 1)
        return command("create", name, *options, *more)

    return create_here


def await_that(claim):
    deadline = time.monotonic() + 30
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_triggered_schedule_ends_in_one_run_with_the_traffic_recorded(shift, ledger, command, create, serving):
    code, out, err = create("chat", "--time-zone", "Europe/Berlin", "--hot-ops", 3, "--look-back-days", 30, "--json")
    assert code == 0, err
    made = json.loads(out)
    assert (made["name"], made["cron"], made["time_zone"]) == ("chat", "0 2 * * *", "Europe/Berlin")
    assert (made["catch_up_s"], made["jitter_s"], made["request"]["hot_ops"]) == (3600.0, 0.0, 3)
    assert made["source"] == f"file://{serving}"
    assert made["next_at"]

    async def policy_of(schedule_id):
        described = await (await shift.client()).get_schedule_handle(schedule_id).describe()
        return described.schedule.policy

    policy = asyncio.run(policy_of(made["id"]))
    assert (policy.overlap, policy.catchup_window) == (ScheduleOverlapPolicy.SKIP, timedelta(hours=1))
    assert command("trigger", "chat")[0] == 0
    await_that(lambda: any(run.report for run in ledger.runs()))
    (run,) = ledger.runs()
    code, out, _ = command("show", "chat", "--json")
    (night,) = json.loads(out)["nights"]
    assert (night["night_id"], night["outcome"], night["requests"]) == (run.run_id, "nothing_shipped", 1)
    assert night["traffic"]["files"][0]["name"] == "a.jsonl"
    code, out, _ = command("show", "chat")
    assert run.run_id in out


def test_a_night_that_is_due_while_another_goes_on_is_left_out(shift, ledger, command, create):
    create()
    shift.quick.may_end.clear()
    assert command("trigger", "chat")[0] == 0
    await_that(lambda: shift.quick.replayed)
    await_that(lambda: json.loads(command("show", "chat", "--json")[1])["going_on"] is not None)
    code, out, _ = command("trigger", "chat")
    assert (code, "goes on already" in out) == (1, True)
    schedule_id = json.loads(command("show", "chat", "--json")[1])["id"]

    async def trigger_as_another_scheduler_would():
        await (await shift.client()).get_schedule_handle(schedule_id).trigger()

    asyncio.run(trigger_as_another_scheduler_would())
    await_that(lambda: json.loads(command("show", "chat", "--json")[1])["left_out"] == 1)
    shift.quick.may_end.set()
    await_that(lambda: json.loads(command("show", "chat", "--json")[1])["going_on"] is None)
    assert len(shift.quick.replayed) == len(ledger.runs()) == 1


def test_of_the_same_schedule_made_from_two_machines_at_once_there_is_one(shift, command, create, serving, model):
    options = ["--cron", "0 2 * * *", "--source", str(serving), "--model", str(model)]
    codes = []

    def make(name):
        codes.append(run_command(["schedule", "create", name, *options]))

    threads = [threading.Thread(target=make, args=(f"chat-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0, 2, 2, 2]
    code, _, err = create("other")
    assert code == 2
    assert "on this source and device already" in err
    assert len(json.loads(command("list", "--json")[1])["schedules"]) == 1


def test_one_model_may_have_a_schedule_for_every_source(shift, command, create, serving):
    assert create()[0] == 0
    code, _, err = create("chat", source=serving / "a.jsonl")
    assert (code, "there is a schedule chat already" in err) == (2, True)
    assert create("file", source=serving / "a.jsonl")[0] == 0
    code, out, _ = command("list", "--json")
    assert [each["name"] for each in json.loads(out)["schedules"]] == ["chat", "file"]
    assert "file" in command("list")[1]


@pytest.mark.slow
def test_a_paused_schedule_waits_and_one_that_is_deleted_is_gone(shift, ledger, command, create):
    """Every second, so that a night comes while nobody looks."""
    code, _, err = create(cron="* * * * * * *")
    assert code == 0, err
    await_that(lambda: ledger.runs())
    assert command("pause", "chat", "--note", "for a look")[0] == 0
    await_that(lambda: json.loads(command("show", "chat", "--json")[1])["going_on"] is None)
    paused = json.loads(command("show", "chat", "--json")[1])
    assert (paused["is_paused"], paused["note"]) == (True, "for a look")
    schedule_id = paused["id"]
    nights = len(Nights(ledger).latest(schedule_id, limit=100))
    time.sleep(2.5)
    assert len(Nights(ledger).latest(schedule_id, limit=100)) == nights
    assert command("unpause", "chat")[0] == 0
    await_that(lambda: len(Nights(ledger).latest(schedule_id, limit=100)) > nights)
    assert command("delete", "chat")[0] == 0
    assert json.loads(command("list", "--json")[1]) == {"schedules": []}
    code, _, err = command("show", "chat")
    assert (code, "no schedule chat" in err) == (2, True)
    assert len(ledger.runs()) == 1  # later nights found nothing new


def test_a_schedule_made_anew_goes_on_where_it_was(shift, ledger, command, create):
    create()
    command("trigger", "chat")
    await_that(lambda: any(run.report for run in ledger.runs()))
    command("delete", "chat")
    said = " ".join(create("again")[2].split())
    assert "if another Temporal server still has this schedule, delete it there" in said
    time.sleep(1.0)  # a server names nights by their second, and begins no two of one name
    command("trigger", "again")
    schedule_id = json.loads(command("show", "again", "--json")[1])["id"]
    await_that(lambda: len(Nights(ledger).latest(schedule_id, limit=10)) == 2)
    newest, _ = Nights(ledger).latest(schedule_id, limit=10)
    assert newest.outcome.kind == "skipped"


def test_its_time_can_be_changed_and_a_pause_outlasts_that(shift, command, create):
    create()
    command("pause", "chat")
    code, out, _ = command("update", "chat", "--cron", "30 3 * * *", "--jitter-minutes", 5, "--json")
    changed = json.loads(out)
    assert (code, changed["cron"], changed["jitter_s"], changed["is_paused"]) == (0, "30 3 * * *", 300.0, True)
    assert changed["next_at"][0].split("T")[1].startswith("03:3")
    code, _, err = command("update", "chat", "--cron", "tomorrow")
    assert (code, "CronString" in err) == (2, True)
    assert command("update", "chat")[0] == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cron", "0 25 * * *"), "Hour is not in range"),
        (("--cron", "at night"), "5-7 fields"),
        (("--cron", "0 2 30 2 *"), "never comes"),
        (("--time-zone", "Europe/Atlantis"), "unknown time zone"),
        (("--device", "cpu-000000000000"), "knows no device"),
        (("--source", "gopher://logs"), "gopher"),
        (("--source", "s3://key:secret@bucket/logs"), "credentials come from the environment"),
        (("--source", "/nowhere/logs"), "cannot be listed"),
        (("--model", "/nowhere/model"), "no model at"),
        (("--agent", "llm", "--model-name", "nobody"), "no language model"),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(shift, command, serving, model, options, words):
    asked = {"--cron": "0 2 * * *", "--source": serving, "--model": model}
    asked |= dict(zip(options[::2], options[1::2], strict=True))
    code, _, err = command("create", "chat", *(word for option in asked.items() for word in option))
    assert code == 2
    assert words in err
    assert "secret" not in err
    assert "Traceback" not in err
    assert json.loads(command("list", "--json")[1]) == {"schedules": []}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"COMPILER_AGENT_TEMPORAL": ""}, "nothing serves"),
        ({"COMPILER_AGENT_TEMPORAL": "127.0.0.1:1"}, "no Temporal server answers"),
        ({"COMPILER_AGENT_TEMPORAL_NAMESPACE": "nowhere"}, "nowhere"),
    ],
)
def test_a_server_that_is_not_there_is_told(shift, command, create, monkeypatch, environment, words):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for code, _, err in (command("list"), command("trigger", "chat"), create()):
        assert code == 2
        assert words in err
        assert "Traceback" not in err
