"""make_past: a home that days of use have left: ledger, blobs, builds, counters; every page has something to show.

Nothing in it was ever run. Given hostile words, every text of it that no rule of a record forbids is an attack.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session

from candidates.compiler_report import CompilerReport, LoopCode, Remark
from candidates.exam import (
    FAST_P,
    ExamReport,
    ExamRequest,
    ExamTask,
    FastShare,
    MeanSpeedup,
    TaskResult,
    share_of,
)
from candidates.ledger import standings
from candidates.ledger.blobs import BlobStore
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.ledger import Ledger
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.reports import RecordedReports
from candidates.ledger.retractions import Retractions
from candidates.ledger.run_states import RunStates
from candidates.ledger.tables import Fact, Table
from candidates.measurement import Baseline, Interval
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import Retraction, decide_promotion
from candidates.pull_requests.facts import Event, PullRequestFact
from candidates.run import Progress, SearchEnd, Stage, TuneReport, TuneRequest
from candidates.serving_build.build import builds_folder
from candidates.serving_build.builds import BuildStore
from candidates.spending import ModelBudget
from tests.leaderboard.browser.kernels import (
    OPS,
    accepted,
    ceilings_of,
    cpu,
    gpu,
    make_attempt,
    make_candidate,
    make_task,
    measure,
)
from tests.leaderboard.browser.nights import (
    Night,
    Place,
    first_progress,
    make_request,
    put_night,
    put_search_progress,
    write_night_build,
)
from tests.leaderboard.browser.texts import LINK, Say, as_it_is, briefly, say_gates

SHIPPED_FIRST = ("Linear[576,49152]", "LlamaMLP.prefill", "Linear[1536,576].decode")
SHIPPED_LATER = ("LlamaMLP.decode", "Linear[576,49152]", "LlamaMLP.prefill", "Linear[576,576].decode")


_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_TOOK = timedelta(seconds=390)
"""Every run, or so far."""


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
    first = put_night(place, _run_id("run", 3 * _DAY, 4327), 1, ops=OPS[2:], shipped=SHIPPED_FIRST)
    _approve(place, first, "ann")
    _back_date(place, 3 * _DAY - 31 * _HOUR)
    exam = _put_exam(place, first)
    _back_date(place, _HOUR)
    tuned = _put_tune(place)
    _back_date(place, 24 * _HOUR)
    later = put_night(place, _run_id("run", 6 * _HOUR, 8101), 2, shipped=SHIPPED_LATER)
    _approve(place, later, "bob")
    _put_asides(place, first, later)
    _put_counters(place, later)
    _back_date(place, 5 * _HOUR)
    failed = _put_failed(place)
    _back_date(place, _HOUR)
    running = _put_running(place)
    _spread_in_time(place.ledger)
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
        untried=_put_untried(place),
        with_transcript=later.transcript_of,
        ended=later.run_id,
        tuned=tuned,
        exam=exam,
        failed=failed,
        running=running,
        live_build=later.build.id,
        build_before=first.build.id,
        refused_build=_put_refused_build(place, later),
    )


def _put_running(place: Place) -> str:
    """A run amid its search."""
    run_id = _run_id("run", timedelta(0), 777)
    place.ledger.open_run(make_request(place.say, 4), run_id)
    for progress in first_progress(place.say):
        place.ledger.add_progress(run_id, progress)
    for op in OPS[:3]:
        put_search_progress(place.ledger, run_id, op, place.say)
    return run_id


def _approve(place: Place, night: Night, by: str) -> None:
    assert night.build is not None
    approval = BuildStore(place.home).approve(night.build.id, by=place.say(by))
    place.ledger.put_approval(night.build.id, approval)


def _put_failed(place: Place) -> str:
    run_id = _run_id("run", _HOUR, 2211)
    place.ledger.open_run(make_request(place.say, 3), run_id)
    for progress in first_progress(place.say)[:2]:
        place.ledger.add_progress(run_id, progress)
    message = "no room left on /var: 1.2 GB are needed for the model, 0.3 GB are free"
    RunStates(place.ledger).put_failure(run_id, place.say(message))
    return run_id


def _put_tune(place: Place) -> str:
    """A kernel for a GPU, which a language model wrote."""
    ledger, say, op, run_id = place.ledger, place.say, OPS[0], _run_id("tune", 30 * _HOUR, 6001)
    task = make_task(op, gpu(say), say)
    ledger.put_task(task)
    request = TuneRequest(
        task_id=task.id, op=task.op, agents=(say("llm"),), models=ModelBudget(endpoints=(say("fable"),))
    )
    ledger.open_run(request, run_id)
    for number, speedup in enumerate((1.12, 1.31)):
        candidate = make_candidate(op, number, say, night=7, language="triton")
        ledger.put_candidate(candidate)
        screened = measure(op, task, speedup, MeasurementStage.SCREEN)
        attempt = make_attempt(
            candidate,
            say,
            agent="llm",
            endpoint="fable",
            note="a first draft",
            verdict=accepted(),
            measurement=screened,
        )
        ledger.put_attempt(run_id, task.id, attempt)
        progress = Progress(
            stage=Stage.SEARCH, op=task.op, tried=number + 1, best_speedup=speedup, message=say("screened")
        )
        ledger.add_progress(run_id, progress)
    confirmed = measure(op, task, 1.31, MeasurementStage.CONFIRM)
    ledger.put_measurement(run_id, task.id, candidate.id, confirmed)
    promotion = decide_promotion(task.id, candidate.id, accepted(), confirmed)
    ledger.put_promotion(run_id, promotion.model_copy(update={"gates": say_gates(say, promotion.gates)}))
    end = SearchEnd(
        task_id=task.id,
        op=task.op,
        decision="won",
        candidate_id=candidate.id,
        reason=say("no_progress: three rounds without a faster kernel"),
        stop_reason=say("no_progress: three rounds without a faster kernel"),
        tried=2,
    )
    ledger.put_search_end(run_id, end)
    report = TuneReport(
        run_id=run_id,
        task=task.id,
        op=task.op,
        decision="won",
        candidate=candidate.id,
        best_baseline=Baseline.COMPILE,
        speedup_over_best=1.31,
        interval=Interval(1.27, 1.34),
        share_of_floor=0.61,
        tried=2,
        reason=end.reason,
        stop_reason=end.stop_reason,
        spend_usd=0.44,
        spend_tokens=91_200,
        budget_stops=(),
        wall_s=312.0,
    )
    ledger.end_run(report)
    return run_id


def _put_exam(place: Place, night: Night) -> str:
    say, run_id = place.say, _run_id("exam", 31 * _HOUR, 1500)
    tasks = [searched.task for searched in night.searches[:3]]
    request = ExamRequest(
        endpoint=say("opus"),
        model=say("opus-4.8"),
        is_priced=True,
        tasks=tuple(ExamTask(task_id=task.id, op=task.op) for task in tasks),
        models=ModelBudget(endpoints=(say("opus"),)),
        search_s=120.0,
        attempts=6,
        last_stage=MeasurementStage.CONFIRM,
    )
    place.ledger.open_run(request, run_id)
    results = [
        TaskResult(
            task=task.id,
            op=task.op,
            decision="won",
            reason=say("budget: time is spent"),
            stop_reason=say("budget: time is spent"),
            samples=6,
            judged=5,
            accepted=4,
            candidate=None,
            speedup_over_best=1.4 + 0.3 * number,
            interval=Interval(1.3 + 0.3 * number, 1.5 + 0.3 * number),
            stage=MeasurementStage.CONFIRM,
            spend_usd=0.31,
            spend_tokens=60_100,
            model_s=88.0,
        )
        for number, task in enumerate(tasks)
    ]
    report = ExamReport(
        run_id=run_id,
        endpoint=say("opus"),
        model=say("opus-4.8"),
        tasks=tuple(results),
        tasks_correct=share_of(3, 3),
        samples_accepted=share_of(12, 18),
        fast_p=tuple(FastShare(p=p, share=share_of(3 if p < 1.4 else 2, 3)) for p in FAST_P),
        speedup=MeanSpeedup(speedup=1.68, interval=Interval(1.4, 2.0), tasks=3),
        stages={MeasurementStage.CONFIRM: 3},
        wins=3,
        usd_per_win=0.31,
        spend_usd=0.93,
        spend_tokens=180_300,
        model_s=264.0,
        wall_s=402.0,
        stop_reasons={say("budget"): 3},
        budget_stops=(),
    )
    place.ledger.end_run(report)
    return run_id


def _put_asides(place: Place, first: Night, later: Night) -> None:
    """What people and compilers added: a retraction, an evaluation, a report, a pull request."""
    ledger, say = place.ledger, place.say
    mlp, flawed = later.searches[0], first.searches[2]
    flaw = Retraction(candidate_id=flawed.best.id, reason=say("reads past the end of a padded batch"), by=say("carol"))
    Retractions(ledger).put(flaw)
    judged = ledger.attempts(later.run_id, mlp.task.id)[1]
    Evaluations(ledger).put(mlp.task.id, judged)
    RecordedReports(ledger).put(mlp.task.id, mlp.best.id, _compiler_report(say))
    assert later.build is not None
    fact = PullRequestFact(
        repository=say("https://forge.example.org/serving/kernels"),
        win=briefly(say, "win-1"),
        subject=say("LlamaMLP.decode"),
        branch=say("kernels/llama-mlp-decode"),
        op=mlp.task.op,
        run_id=later.run_id,
        build_id=later.build.id,
        candidate_ids=(mlp.best.id,),
        speedup=2.77,
        interval=Interval(2.68, 2.85),
        places=(say("model.layers.*.mlp"),),
        intervals=(Interval(2.68, 2.85),),
        files="0" * 64,
        event=Event.OPENED,
        head=say("0123abcd"),
        number=17,
        url="https://forge.example.org/serving/kernels/pull/17" if say is as_it_is else LINK,
        note=say("opened after the night's run"),
    )
    PullRequestFacts(ledger).add(fact)


def _put_untried(place: Place) -> str:
    candidate = make_candidate(OPS[0], 0, place.say, night=99)
    place.ledger.put_candidate(candidate)
    return candidate.id


def _put_refused_build(place: Place, night: Night) -> str:
    build = write_night_build(place, night.searches[1:2])
    (build.path / briefly(place.say, "notes.txt")).write_text("not of the build")
    return build.id


def _compiler_report(say: Say) -> CompilerReport:
    loop = LoopCode(
        function=say("tile"),
        depth=2,
        first_line=17,
        last_line=23,
        instructions=24,
        vector_instructions=18,
        vector_bits=512,
        scalar_float_instructions=0,
        stack_accesses=2,
        calls=(say("memcpy"),),
        assembly=say("# line 18\nvmovups (%rsi),%zmm0\nvfmadd231ps (%rdi){1to16},%zmm0,%zmm1\n"),
        left_out=12,
    )
    remarks = (
        Remark(line=16, source=say("for (int64_t k = 0;"), is_vectorized=False, text=say("not vectorized: data refs")),
        Remark(
            line=19, source=say("sum[r][0] += x * left;"), is_vectorized=True, text=say("loop vectorized, 64 bytes")
        ),
    )
    return CompilerReport(remarks=remarks, loops=(loop,), notes=(say("inlined functions are told where they stand"),))


def _put_counters(place: Place, night: Night) -> None:
    """Of one process that serves the live build."""
    assert night.build is not None
    say, kernels = place.say, {}
    for number, entry in enumerate(night.build.manifest.kernels):
        kernels[entry.id] = {
            "op": entry.op,
            "hits": 20_520 * (number + 1),
            "misses": 12 * number,
            "miss_reasons": {say("shape not won"): 12 * number} if number else {},
            "missed_shapes": {say("batch=9,tokens=1"): 12 * number} if number else {},
            "shapes": {say("batch=1,tokens=1"): 18_000},
            "shadow": {"agreed": 20} if number == 0 else {},
            "errors": 0,
            "switched_off": say("3 of 20 comparisons disagreed") if number == 3 else None,
        }
    counted = {
        "build_id": night.build.id,
        "obstacle": None,
        "failures": {say("model.layers.29.mlp"): say("its weight is quantised")},
        "kernels": kernels,
    }
    folder = place.home / "counters"
    folder.mkdir()
    (folder / "4711.json").write_text(json.dumps(counted))


def _back_date(place: Place, by: timedelta) -> None:
    """All that is known so far happened so much earlier."""
    with place.ledger.engine.begin() as connection:
        for table in _tables_of_facts():
            move = f"UPDATE {table} SET recorded_at = datetime(recorded_at, '-{int(by.total_seconds())} seconds')"
            connection.execute(text(move))
    builds = BuildStore(place.home)
    earlier = [
        each.model_copy(update={"at": (datetime.fromisoformat(each.at) - by).isoformat(timespec="seconds")})
        for each in builds.history()
    ]
    lines = "".join(f"{each.model_dump_json()}\n" for each in earlier)
    (builds_folder(place.home) / "approvals.jsonl").write_text(lines)
    for path in builds.paths():
        moment = path.stat().st_mtime - by.total_seconds()
        os.utime(path, (moment, moment))


def _run_id(kind: str, ago: timedelta, number: int) -> str:
    return f"{kind}-{datetime.now(UTC) - ago - _TOOK:%Y%m%d-%H%M%S}-{number:04}"


def _spread_in_time(ledger: Ledger) -> None:
    """Each run began some minutes before what else is known of it; its progress lies between."""
    took_s = int(_TOOK.total_seconds())
    earlier = f"datetime(recorded_at, '-{took_s} seconds')"
    share = "CAST(rank() OVER (PARTITION BY run_id ORDER BY sequence) AS REAL) / count(*) OVER (PARTITION BY run_id)"
    with ledger.engine.begin() as connection:
        connection.execute(text(f"UPDATE runs SET recorded_at = {earlier}"))
        left = f"CAST({took_s} * (1 - placed.share) AS INT) || ' seconds'"
        connection.execute(
            text(
                f"UPDATE progress SET recorded_at = datetime(recorded_at, '-' || {left})"
                f" FROM (SELECT sequence AS place, {share} AS share FROM progress) AS placed"
                " WHERE progress.sequence = placed.place"
            )
        )


def _tables_of_facts() -> Sequence[str]:
    kinds = {mapper.class_ for mapper in Table.registry.mappers}
    return sorted(kind.__tablename__ for kind in kinds if issubclass(kind, Fact))
