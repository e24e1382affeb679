"""Two candidates beside each other: their figures, and the difference of their sources."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from candidates.candidate import Candidate
from candidates.ledger.find_standings import standings_of
from candidates.standing import Standing
from leaderboard.difference import compare_sources
from leaderboard.pages.render import board_of, link, render
from leaderboard.wording import UNKNOWN

router = APIRouter()

_MOST_PARAMETERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    id: str
    candidate: Candidate
    standing: Standing | None
    """At a task that both were tried for where there is one; None: it was tried for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    left: str
    right: str

    @property
    def is_changed(self) -> bool:
        return self.left != self.right


@router.get("/compare", response_class=HTMLResponse)
def compare(request: Request, a: str = "", b: str = "") -> Response:
    """Ids, or the starts of them."""
    if not (a and b):
        return render(request, "compare_form.html", a=a, b=b)
    board = board_of(request)
    left, right = board.ledger.candidate(a.strip()), board.ledger.candidate(b.strip())
    left_id, right_id = left.id, right.id
    if (left_id, right_id) != (a, b):
        return RedirectResponse(link(request, "compare", a=left_id, b=right_id))
    standings = standings_of(board.ledger, {left_id, right_id}, board.serving())
    at = [[each for each in standings if each.candidate_id == one] for one in (left_id, right_id)]
    common = {each.task_id for each in at[0]} & {each.task_id for each in at[1]}
    chosen = [next((each for each in mine if each.task_id in common), next(iter(mine), None)) for mine in at]
    return render(
        request,
        "compare.html",
        sides=[
            Compared(id=left_id, candidate=left, standing=chosen[0]),
            Compared(id=right_id, candidate=right, standing=chosen[1]),
        ],
        is_same_task=bool(common),
        parameters=_parameters(left, right),
        difference=compare_sources(left.source, right.source),
    )


def _parameters(left: Candidate, right: Candidate) -> list[Parameter]:
    """Launch parameters, flags and entries of both; those that differ first."""
    mine, others = _named(left), _named(right)
    names = list(dict.fromkeys((*mine, *others)))
    found = [Parameter(name=name, left=mine.get(name, UNKNOWN), right=others.get(name, UNKNOWN)) for name in names]
    return sorted(found, key=lambda parameter: not parameter.is_changed)[:_MOST_PARAMETERS]


def _named(candidate: Candidate) -> dict[str, str]:
    fields = {"language": candidate.language.value, "entry": candidate.entry, "prepare": candidate.prepare or UNKNOWN}
    fields["build flags"] = " ".join(candidate.build_flags) or UNKNOWN
    return fields | {name: str(value) for name, value in candidate.launch_parameters.items()}
