"""What people read of a night: every figure that is there, the reason where one is not, and nothing hostile."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.measurement import Baseline, Interval
from candidates.nightly import Night, NightFailed, NightlySchedule, NightRan, NightSkipped
from candidates.nightly_digest import MOST_CHARACTERS, DigestFacts, write_digest
from candidates.promotion import EndToEnd, Gate
from candidates.run import (
    BuildReport,
    LiveCheck,
    LiveChecks,
    NightlyRequest,
    OpDecision,
    OpReport,
    RunReport,
    RunRequest,
)
from candidates.task import SiteLevel
from tests.candidates.serving_build.nights import FIGURES, REPLAY
from traces.sources.traffic import FileVersion, LeftOut, SeenFile, SeenTraffic

AT = datetime(2026, 11, 30, 2, tzinfo=UTC)
SCHEDULE = NightlySchedule(
    name="chat",
    cron="0 2 * * *",
    time_zone="UTC",
    source="s3://bucket/logs",
    device_id="cpu-1",
    template=RunRequest(traces=(), trace_digest="", model="tiny"),
)
TRAFFIC = SeenTraffic(
    files=(
        SeenFile(
            name="a.jsonl",
            version=FileVersion(size_bytes=9, modified_at=AT),
            sha256="0" * 64,
            rows_before=10,
            rows=5,
            requests=4,
            dropped={"bad_json": 1},
            earliest_s=7.0,
            latest_s=90.0,
        ),
    ),
    left_out=(LeftOut(name="b.gz", reason="gzip data ends too early"),),
    unchanged=2,
)


def night(outcome, number=1, traffic=TRAFFIC):
    return Night(id=f"nightly-{number}", schedule=SCHEDULE, began_at=AT, traffic=traffic, outcome=outcome)


END_TO_END = EndToEnd.model_validate(
    FIGURES
    | {
        "build_id": "b" * 64,
        "hits": {},
        "decode_tokens_per_s": {"eager": 18.9, "build": 29.6},
        "speedup": 1.25,
        "speedup_interval": (1.2, 1.3),
    }
)
RAN = NightRan(request=NightlyRequest(**SCHEDULE.template.model_dump() | {"night_id": "nightly-1"}))


def op(name="RMSNorm", decision=OpDecision.SHIPPED, reason="", speedup=1.5):
    return OpReport(
        op=name,
        site="model.norm",
        level=SiteLevel.LEAF,
        candidate="c" * 64,
        share_of_time=0.25,
        share_by_class={},
        best_baseline=Baseline.EAGER,
        speedup_over_best=speedup,
        interval=Interval(1.4, 1.6),
        share_of_floor=0.5,
        decision=decision,
        reason=reason,
    )


def report(*ops, passed=True, live=False, **more):
    gates = (Gate(name="end to end", figure=1.31, bound="> 1", passed=passed),)
    build = BuildReport(id="b" * 64, path="/builds/b", kernels=1, live=live, gates=gates)
    return RunReport.model_validate(
        {
            "run_id": "nightly-1",
            "replay": REPLAY.report,
            "coverage": 0.92,
            "rank_correlation": {},
            "hot_ops": ops or (op(),),
            "build": build,
            "end_to_end": END_TO_END,
            "spend_usd": 1.5,
            "spend_tokens": 2000,
            "wall_s": 600.0,
        }
        | more
    )


def digest(outcome=RAN, report=None, **facts):
    nothing = {"failure": None, "spend_usd": 0.0, "without_run": (), "page": None, "usd_per_device_hour": None}
    return write_digest(DigestFacts(**{"night": night(outcome), "report": report} | nothing | facts))


def test_a_night_that_shipped_says_what_it_saw_won_saved_and_cost():
    lost = op("Linear", OpDecision.LOST, "slower in every process", speedup=0.9)
    text = digest(report=report(op(), lost), page="https://board/runs/nightly-1", usd_per_device_hour=10.0)
    assert text.splitlines()[0] == "# chat, 2026-11-30 02:00 UTC: 1 kernel shipped, not live yet"
    for words in (
        "https://board/runs/nightly-1",
        "4 new requests in 1 of 3 files; 1 rows were dropped",
        "| `a.jsonl` | 11-15 | 4 | 7-90 | `bad_json 1` |",
        "`b.gz`: `gzip data ends too early`",
        "cover 92.0%",
        "| `RMSNorm` | 25.0% | 1.50x | 1.40-1.60 | shipped |  |",
        "| `Linear` | 25.0% | 0.90x | 1.40-1.60 | lost | `slower in every process` |",
        "waits for `compiler-agent builds approve bbbbbbbbbbbb`",
        "1.25x of eager over the traffic (1.20-1.30)",
        "saves 2.4 device-hours a day (2.00-2.77) of 12.0, $24.00",
        "Models cost $1.50 for 2000 tokens; the run took 10 minutes",
    ):
        assert words in text
    assert "live" in digest(report=report(live=True)).splitlines()[0]


def test_a_build_that_did_not_pass_says_at_which_gate():
    text = digest(report=report(op(decision=OpDecision.WON_NOT_SHIPPED, reason="the build did not pass"), passed=False))
    assert "nothing shipped" in text.splitlines()[0]
    assert "end to end: 1.31 (> 1)" in text
    assert "Nothing is saved" in text


def test_kernels_that_leave_the_live_build_are_named():
    gone = LiveCheck(candidate_id="d" * 64, op="Rotary", task_id=None, outcome="wrong", reason="rejected: wrong values")
    checks = LiveChecks(build_id="a", kernels=(gone,))
    text = digest(report=report().model_copy(update={"live": checks}))
    assert "`Rotary` `dddddddddddd` is wrong: `rejected: wrong values`" in text


@pytest.mark.parametrize(
    ("outcome", "facts", "words"),
    [
        (NightSkipped(reason="no new requests"), {}, ("skipped", "`no new requests`")),
        (NightFailed(reason="no bucket"), {"failure": "no bucket"}, ("failed", "**It failed**: `no bucket`")),
        (RAN, {"failure": "the disk is full", "spend_usd": 0.5}, ("failed", "`the disk is full`", "cost $0.50")),
    ],
)
def test_a_night_without_a_report_says_why(outcome, facts, words):
    text = digest(outcome, **facts)
    assert text.splitlines()[0].endswith(words[0])
    for word in words:
        assert word in text


def test_nights_that_had_no_run_are_told_with_the_next_that_has():
    earlier = [night(NightSkipped(reason="no new requests"), 2), night(NightFailed(reason="no bucket"), 3)]
    text = digest(report=report(), without_run=earlier)
    assert "- 2026-11-30 02:00 skipped: `no new requests`\n- 2026-11-30 02:00 failed: `no bucket`" in text


@given(hostile=st.text(max_size=200), number=st.integers(1, 300))
def test_what_others_wrote_does_nothing_and_a_digest_has_a_length(hostile, number):
    reason = f"@everyone {hostile} | <b>https://evil.example/"
    traffic = SeenTraffic(files=tuple(TRAFFIC.files[0].model_copy(update={"name": reason}) for _ in range(number)))
    facts = DigestFacts(
        night=night(RAN, traffic=traffic),
        report=report(*(op(reason, OpDecision.LOST, reason) for _ in range(number))),
        failure=None,
        spend_usd=0.0,
        without_run=(),
        page=None,
        usd_per_device_hour=None,
    )
    text = write_digest(facts)
    assert len(text) < MOST_CHARACTERS + 20
    assert "@everyone" not in text
    assert "https://evil" not in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert all(line.count("|") in (6, 7) for line in rows)
