"""What people, compilers and serving processes added to a past beside its runs."""

import json

from candidates.compiler_report import CompilerReport, LoopCode, Remark
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.reports import RecordedReports
from candidates.ledger.retractions import Retractions
from candidates.measurement import Interval
from candidates.promotion import Retraction
from candidates.pull_requests.facts import Event, PullRequestFact
from tests.leaderboard.browser.nights import write_night_build
from tests.leaderboard.browser.past_kernels import (
    OPS,
    make_candidate,
)
from tests.leaderboard.browser.searched import Night, Place
from tests.leaderboard.browser.texts import LINK, Say, as_it_is, briefly


def put_asides(place: Place, first: Night, later: Night) -> None:
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


def put_untried(place: Place) -> str:
    candidate = make_candidate(OPS[0], 0, place.say, night=99)
    place.ledger.put_candidate(candidate)
    return candidate.id


def put_refused_build(place: Place, night: Night) -> str:
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


def put_counters(place: Place, night: Night) -> None:
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
