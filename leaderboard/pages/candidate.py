"""A candidate's page: is it right, how fast and how sure, against what, how to do it again; and its bare source."""

import re

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from candidates.ledger.candidate_facts import facts_of, fastest_of_op
from candidates.ledger.find_standings import standings_of
from candidates.ledger.ledger import LedgerError
from candidates.ledger.reports import RecordedReports
from candidates.ledger.retractions import Retractions
from candidates.standing import Standing, State
from candidates.verdict import Accepted, Rejected, Verdict
from leaderboard.highlight import highlight
from leaderboard.pages import candidate_view
from leaderboard.pages.render import board_of, link, render
from leaderboard.wording import short

router = APIRouter()

MOST_TASKS = 20
MOST_PARENTS = 8
_WHOLE_ID = re.compile(r"[0-9a-f]{64}")


@router.get("/candidates/{candidate_id}", response_class=HTMLResponse)
def candidate(request: Request, candidate_id: str, task: str | None = None) -> Response:
    """`task`: of those that it was tried for, by id or the start of it; otherwise the latest."""
    board = board_of(request)
    found = board.ledger.candidate(candidate_id)
    whole = found.id
    if whole != candidate_id:
        return RedirectResponse(link(request, "candidates", whole, task=task))
    standings = standings_of(board.ledger, [whole], board.serving())
    source = highlight(found.source, found.language)
    if not standings:
        return render(request, "candidate_untried.html", id=whole, candidate=found, source=source)
    standing = choose_standing(standings, task)
    facts = facts_of(board.ledger, whole, standing.task_id)
    attempt = facts.word.attempt if facts.word is not None else None
    verdict = attempt.verdict if attempt is not None else None
    measurement = attempt.measurement if attempt is not None else None
    parents = [parent for parent in standing.parents if _WHOLE_ID.fullmatch(parent)][:MOST_PARENTS]
    fastest = fastest_of_op(board.ledger, standing.op, standing.device_id, besides=whole)
    counted = next((trial.attempt.counters for trial in facts.trials if trial.attempt and trial.attempt.counters), None)
    return render(
        request,
        "candidate.html",
        id=whole,
        candidate=found,
        source=source,
        standing=standing,
        elsewhere=[each for each in standings if each is not standing][:MOST_TASKS],
        more_tasks=max(0, len(standings) - 1 - MOST_TASKS),
        task=facts.task,
        verdict=verdict,
        said=None if verdict is None else candidate_view.say(verdict),
        seed=_seed(verdict),
        speed=None if measurement is None else candidate_view.describe_speed(facts.task, measurement),
        trials=candidate_view.describe_trials(facts.trials),
        latest=next((trial for trial in facts.trials if trial.measurements), None),
        gates=facts.gates,
        builds=facts.builds,
        retraction=Retractions(board.ledger).of(whole) if standing.state is State.RETRACTED else None,
        report=RecordedReports(board.ledger).of(standing.task_id, whole),
        counters=counted,
        proposals=candidate_view.proposals_in(facts),
        parents=parents,
        parent_standings=_by_candidate(standings_of(board.ledger, parents, board.serving()) if parents else ()),
        fastest=fastest if fastest not in parents else None,
    )


@router.get("/candidates/{candidate_id}/source")
def source(request: Request, candidate_id: str) -> Response:
    """As it was judged, whole."""
    found = board_of(request).ledger.candidate(candidate_id)
    name = f"{short(found.id)}{found.language.file_ending}"
    # A source may hold what no UTF-8 does only where no judge has seen it.
    content = found.source.encode(errors="replace")
    headers = {"content-disposition": f'inline; filename="{name}"', "x-content-type-options": "nosniff"}
    return Response(content, media_type="text/plain; charset=utf-8", headers=headers)


def choose_standing(standings: tuple[Standing, ...], task_prefix: str | None) -> Standing:
    """Raises LedgerError where it was not tried for that task."""
    for standing in standings:
        if standing.task_id.startswith(task_prefix or ""):
            return standing
    raise LedgerError(f"candidate {short(standings[0].candidate_id)} was not tried for task {(task_prefix or '')[:64]}")


def _seed(verdict: Verdict | None) -> int | None:
    """With which it can be judged again; a kernel that was rejected before it ran has none."""
    match verdict:
        case Accepted():
            return verdict.seed
        case Rejected():
            return verdict.seed or None
        case _:
            return None


def _by_candidate(standings: tuple[Standing, ...]) -> dict[str, Standing]:
    """The latest of each."""
    return {standing.candidate_id: standing for standing in reversed(standings)}
