"""The API's side of builds: which there are, what is in them, and which is live. `pages.rollback` changes that."""

from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from candidates.promotion import Gate
from candidates.serving_build.manifest import Manifest
from leaderboard.build_facts import BuildFacts, read_facts
from leaderboard.pages.found import build_facts_of
from leaderboard.pages.render import board_of
from leaderboard.shown_builds import RefusedBuild

router = APIRouter(prefix="/api/v1")


class BuildDocument(BaseModel):
    state: Literal["verified"] = "verified"
    id: str
    is_live: bool
    made_at: datetime
    runs: tuple[str, ...]
    """That made it, the newest first."""
    gates: tuple[Gate, ...]
    """Of the newest run that measured it; empty: none did."""
    flaws: dict[str, str]
    """What was found wrong with kernels since they won, by candidate."""
    manifest: Manifest


class RefusedBuildDocument(BaseModel):
    """A folder that holds something else than its name says."""

    state: Literal["refused"] = "refused"
    id: str
    is_live: bool
    reason: str


class Builds(BaseModel):
    live: str | None
    builds: tuple[BuildDocument | RefusedBuildDocument, ...]


@router.get("/builds")
def builds(request: Request) -> Builds:
    """The newest first."""
    board = board_of(request)
    live = board.builds.current()
    found = read_facts(board, board.shown_builds.list(board.builds))
    return Builds(live=live, builds=tuple(_document(facts, live) for facts in found))


@router.get("/builds/{build_id}")
def build(request: Request, build_id: str) -> BuildDocument | RefusedBuildDocument:
    """The start of an id does where it is the only one."""
    board = board_of(request)
    return _document(build_facts_of(board, build_id), board.builds.current())


def _document(facts: BuildFacts | RefusedBuild, live: str | None) -> BuildDocument | RefusedBuildDocument:
    if isinstance(facts, RefusedBuild):
        return RefusedBuildDocument(id=facts.id, is_live=facts.id == live, reason=facts.reason)
    return BuildDocument(
        id=facts.build.id,
        is_live=facts.build.id == live,
        made_at=facts.made_at,
        runs=tuple(facts.runs),
        gates=facts.gates,
        flaws=dict(facts.flaws),
        manifest=facts.build.manifest,
    )
