"""The builds: which is live and who made it so; one, as its manifest and its counters tell; two compared."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from candidates.serving_build.builds import Approval, ApprovalAction, BuildNotFound
from candidates.serving_build.difference import ChangedKernel, compare_builds
from leaderboard.access.token_words import may_act
from leaderboard.board import Board
from leaderboard.build_facts import range_words, read_facts, site_words, sum_counters
from leaderboard.pages.render import board_of, not_found, render
from leaderboard.shown_builds import RefusedBuild, ShownBuild

router = APIRouter()

SHOWN_DECISIONS = 50
_FRESH_S = 120.0
"""A decision is news for so long: it confirms a rollback to the person who asked for it."""

_CHANGE_WORDS: Mapping[str, str] = {
    "id": "another kernel",
    "task_id": "for another task",
    "library": "another library file",
    "entry": "another entry point",
    "prepare": "prepares its parameters otherwise",
    "inputs": "takes other inputs",
    "outputs": "gives other outputs",
    "axes": "has other axes",
    "ranges": "serves other shapes",
    "error_bound": "another bound on its error",
    "measurement": "measured anew",
}


@router.get("/builds", response_class=HTMLResponse)
def builds(request: Request) -> HTMLResponse:
    return render_builds(request)


def render_builds(request: Request, refusal: str | None = None, status_code: int = 200) -> HTMLResponse:
    """`refusal`: why an action was not done."""
    board = board_of(request)
    decisions = board.builds.decisions()[::-1]
    return render(
        request,
        "builds.html",
        status_code=status_code,
        builds=read_facts(board, board.shown_builds.list(board.builds)),
        live=board.builds.current(),
        decisions=decisions[:SHOWN_DECISIONS],
        decisions_in_all=len(decisions),
        last=decisions[0] if decisions else None,
        is_fresh=bool(decisions) and _age_s(decisions[0]) < _FRESH_S and refusal is None,
        words=decision_words,
        refusal=refusal,
        may_act=may_act(board),
    )


@router.get("/builds/{build_id}", response_class=HTMLResponse)
def build(request: Request, build_id: str) -> HTMLResponse:
    board = board_of(request)
    facts = next(iter(read_facts(board, [_show(board, build_id)])), None)
    if facts is None:
        raise not_found(f"build {build_id[:80]} was collected meanwhile")
    live = board.builds.current()
    if isinstance(facts, RefusedBuild):
        return render(request, "build_refused.html", build=facts, is_live=facts.id == live)
    counted = board.counted(facts.build.id)
    return render(
        request,
        "build.html",
        facts=facts,
        build=facts.build,
        is_live=facts.build.id == live,
        live=live,
        counted=counted,
        kernels=sum_counters(facts.build, counted),
        range_words=range_words,
        site_words=site_words,
        decisions=[each for each in board.builds.decisions() if facts.build.id in (each.build_id, each.previous)][::-1],
        words=decision_words,
    )


@router.get("/builds/{build_id}/diff", response_class=HTMLResponse)
def difference(request: Request, build_id: str) -> HTMLResponse:
    """`?to=`: the build that would take the place of this one; the live one where nothing is said."""
    board = board_of(request)
    live = board.builds.current()
    before = _show(board, build_id)
    to = request.query_params.get("to") or live
    after = None if to is None else _show(board, to)
    for each in (before, after):
        if isinstance(each, RefusedBuild):
            return render(request, "build_refused.html", build=each, is_live=each.id == live)
    assert not isinstance(before, RefusedBuild)
    assert not isinstance(after, RefusedBuild)
    return render(
        request,
        "build_diff.html",
        before=before,
        after=after,
        live=live,
        difference=None if after is None else compare_builds(before.manifest, after.manifest),
        change_words=change_words,
        others=[each.id for each in board.shown_builds.list(board.builds) if each.id != before.id],
    )


def decision_words(approval: Approval) -> str:
    match approval.action:
        case ApprovalAction.APPROVE:
            return "made live"
        case ApprovalAction.ROLLBACK:
            return "rolled back to"
        case ApprovalAction.WITHDRAW:
            return "withdrawn"


def change_words(kernel: ChangedKernel) -> str:
    changes: Sequence[str] = kernel.changes
    if "id" in changes:  # a file of another name follows from it
        changes = [change for change in changes if change != "library"]
    return ", ".join(_CHANGE_WORDS.get(change, change) for change in changes)


def _show(board: Board, build_id: str) -> ShownBuild:
    try:
        return board.shown_builds.show(board.builds, build_id)
    except BuildNotFound as fault:
        raise not_found(f"no build, or more than one, has an id that starts with {build_id[:80]!r}") from fault


def _age_s(approval: Approval) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(approval.at)).total_seconds()
