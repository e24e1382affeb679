"""What `schedule show` says of nights."""

import json

from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import RunStates
from candidates.nightly import NightFailed, NightSkipped
from compiler_agent.schedule_report import print_schedule
from compiler_agent.schedules import KnownSchedule
from tests.candidates.test_nightly_digest import RAN, SCHEDULE, night

KNOWN = KnownSchedule(schedule=SCHEDULE, is_paused=False, note="", next_at=(), going_on=None, left_out=0, missed=0)


def shown(ledger, capsys, *nights):
    print_schedule(KNOWN, nights, ledger, json=True)
    return [(each["outcome"], each["reason"]) for each in json.loads(capsys.readouterr().out)["nights"]]


def test_a_night_whose_run_failed_has_failed_and_says_why(tmp_path, capsys):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ran = night(RAN)
    ledger.open_run(RAN.request, ran.id)
    assert shown(ledger, capsys, ran) == [("not_ended", "")]
    RunStates(ledger).put_failure(ran.id, "the model has no tokenizer")
    assert shown(ledger, capsys, ran) == [("failed", "the model has no tokenizer")]


def test_nights_without_a_run_say_why(tmp_path, capsys):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    skipped, failed = night(NightSkipped(reason="no new requests")), night(NightFailed(reason="nobody answers"), 2)
    assert shown(ledger, capsys, skipped, failed) == [("skipped", "no new requests"), ("failed", "nobody answers")]
