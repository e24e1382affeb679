"""The dialogue with models that wrote a candidate: each call, its purpose, its cost, what was asked and said."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from candidates.candidate import Proposal
from candidates.ledger.candidate_facts import facts_of
from candidates.ledger.find_standings import standings_of
from leaderboard.board import Board
from leaderboard.dialogue import Part, read_dialogue, read_part
from leaderboard.pages.candidate import choose_standing
from leaderboard.pages.candidate_view import proposals_in
from leaderboard.pages.render import board_of, link, not_found, render
from leaderboard.wording import short

router = APIRouter()

MOST_DIALOGUES = 4


@router.get("/candidates/{candidate_id}/transcript", response_class=HTMLResponse)
def transcript(request: Request, candidate_id: str, task: str | None = None, dialogue: int = 0) -> Response:
    """`dialogue`: of several that led to the candidate, the newest is 0."""
    board = board_of(request)
    whole = board.ledger.candidate(candidate_id).id
    if whole != candidate_id:
        return RedirectResponse(link(request, "candidates", whole, "transcript", task=task))
    written = _written(board, whole, task)
    if not 0 <= dialogue < max(1, len(written)):
        raise not_found(f"candidate {short(whole)} has {len(written)} dialogues")
    proposal = written[dialogue] if written else None
    digest = proposal.transcript if proposal is not None else None
    return render(
        request,
        "transcript.html",
        id=whole,
        task=task,
        number=dialogue,
        dialogues=len(written),
        proposal=proposal,
        dialogue=None if digest is None else read_dialogue(board.blobs, digest, board.redact),
    )


@router.get("/candidates/{candidate_id}/transcript/{number}/{part}")
def part(
    request: Request,
    candidate_id: str,
    number: Annotated[int, Path(ge=0)],
    part: Part,
    task: str | None = None,
    dialogue: int = 0,
) -> Response:
    """One side of a call, whole, as JSON in plain text."""
    board = board_of(request)
    written = _written(board, board.ledger.candidate(candidate_id).id, task)
    proposal = written[dialogue] if 0 <= dialogue < len(written) else None
    digest = proposal.transcript if proposal is not None else None
    content = None if digest is None else read_part(board.blobs, digest, number, part, board.redact)
    if content is None:
        raise not_found(f"there is no {part} {number} of that dialogue here")
    headers = {"content-disposition": "inline", "x-content-type-options": "nosniff"}
    return Response(content.encode(errors="replace"), media_type="text/plain; charset=utf-8", headers=headers)


def _written(board: Board, candidate_id: str, task: str | None) -> list[Proposal]:
    """Ways in which models came to propose it, the newest first."""
    standings = standings_of(board.ledger, [candidate_id], board.serving())
    if not standings:
        return []
    facts = facts_of(board.ledger, candidate_id, choose_standing(standings, task).task_id)
    return [proposal for proposal in proposals_in(facts) if proposal.transcript is not None][:MOST_DIALOGUES]
