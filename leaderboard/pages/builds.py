"""The builds: which is live and who made it so; one, as its manifest and its counters tell; two compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from candidates.serving_build.builds import Approval, ApprovalAction
from candidates.serving_build.difference import ChangedKernel, compare_builds
from leaderboard.access.token_words import may_act
from leaderboard.build_facts import range_words, read_facts, site_words, sum_counters
from leaderboard.pages.found import build_facts_of, build_of
from leaderboard.pages.render import board_of, render
from leaderboard.shown_builds import RefusedBuild

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

_DECISION_WORDS: Mapping[ApprovalAction, str] = {
    ApprovalAction.APPROVE: "made live",
    ApprovalAction.ROLLBACK: "rolled back",
    ApprovalAction.WITHDRAW: "withdrawn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An approval as the pages tell it."""

    action: ApprovalAction
    words: str
    build_id: str | None
    """Live from then on; None: no build was."""
    previous: str | None
    by: str
    at: datetime


@router.get("/builds", response_class=HTMLResponse)
def builds(request: Request) -> HTMLResponse:
    return render_builds(request)


def render_builds(request: Request, refusal: str | None = None, status_code: int = 200) -> HTMLResponse:
    """`refusal`: why an action was not done."""
    board = board_of(request)
    approvals = board.builds.decisions()
    decisions = describe_decisions(approvals[-SHOWN_DECISIONS:])
    return render(
        request,
        "builds.html",
        status_code=status_code,
        builds=read_facts(board, board.shown_builds.list(board.builds)),
        live=board.builds.current(),
        decisions=decisions,
        decisions_in_all=len(approvals),
        last=decisions[0] if decisions else None,
        is_fresh=refusal is None and bool(decisions) and _is_fresh(decisions[0]),
        refusal=refusal,
        may_act=may_act(board),
    )


@router.get("/builds/{build_id}", response_class=HTMLResponse)
def build(request: Request, build_id: str) -> HTMLResponse:
    board = board_of(request)
    facts, live = build_facts_of(board, build_id), board.builds.current()
    if isinstance(facts, RefusedBuild):
        return render(request, "build_refused.html", build=facts, is_live=facts.id == live)
    counted = board.counted(facts.build.id)
    approvals = [each for each in board.builds.decisions() if facts.build.id in (each.build_id, each.previous)]
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
        decisions=describe_decisions(approvals),
    )


@router.get("/builds/{build_id}/diff", response_class=HTMLResponse)
def difference(request: Request, build_id: str) -> HTMLResponse:
    """`?to=`: the build that would take the place of this one; the live one where nothing is said."""
    board = board_of(request)
    live = board.builds.current()
    before = build_of(board, build_id)
    if isinstance(before, RefusedBuild):
        return render(request, "build_refused.html", build=before, is_live=before.id == live)
    to = request.query_params.get("to") or live
    after = None if to is None else build_of(board, to)
    if isinstance(after, RefusedBuild):
        return render(request, "build_refused.html", build=after, is_live=after.id == live)
    return render(
        request,
        "build_diff.html",
        before=before,
        after=after,
        live=live,
        difference=None if after is None else compare_builds(before.manifest, after.manifest),
        change_words=change_words,
        others=[path.name for path in board.builds.paths() if path.name != before.id],
    )


def describe_decisions(approvals: Iterable[Approval]) -> tuple[Decision, ...]:
    """The last first; `approvals` in their order."""
    described = [
        Decision(
            action=each.action,
            words=_DECISION_WORDS[each.action],
            build_id=each.build_id,
            previous=each.previous,
            by=each.by,
            at=datetime.fromisoformat(each.at),
        )
        for each in approvals
    ]
    return tuple(reversed(described))


def change_words(kernel: ChangedKernel) -> str:
    changes: Sequence[str] = kernel.changes
    if "id" in changes:  # a file of another name follows from it
        changes = [change for change in changes if change != "library"]
    return ", ".join(_CHANGE_WORDS.get(change, change) for change in changes)


def _is_fresh(decision: Decision) -> bool:
    return (datetime.now(UTC) - decision.at).total_seconds() < _FRESH_S
