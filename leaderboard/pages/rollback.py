"""Rolling back: by the form of the page of builds, and by the API. Who asks shows a token; no cookie stands for it."""

from functools import partial
from threading import Lock
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Body, Form, Header, HTTPException, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from leaderboard.access.actions import ActionRefused, Moved
from leaderboard.access.token_words import TokensUnreadable, name_of
from leaderboard.board import Board
from leaderboard.pages.builds import render_builds
from leaderboard.pages.render import board_of, link

router = APIRouter()
api_router = APIRouter(prefix="/api/v1")

FORM = "rollback"
"""That its stamp is for."""

_ONE_AT_A_TIME = Lock()
"""Of two who ask at the same moment, the second asks for what is no longer so."""

_WAITING = CapacityLimiter(1)
"""Its own: who changes something may wait half a minute for the ledger, and readers must not wait for that."""


class _Refused(Exception):
    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code, self.message = status_code, message


@router.get("/builds/rollback")
def ask(request: Request) -> Response:
    """The address that a refused form leaves in the browser."""
    return RedirectResponse(link(request, "builds"))


@router.post("/builds/rollback")
async def roll_back_by_form(
    request: Request,
    token: Annotated[str, Form()] = "",
    stamp: Annotated[str, Form()] = "",
    live: Annotated[str, Form()] = "",
) -> Response:
    """`live`: the build that was live when the form was made."""
    board = board_of(request)
    try:
        if not board.stamps.is_valid(FORM, stamp):
            raise _Refused(403, "the form is too old, or not of this page: send it again from here")
        await _wait_for_rollback(board, token, live, missing="give a token: without one nothing may be changed here")
    except _Refused as refused:
        return await run_in_threadpool(render_builds, request, refused.message, refused.status_code)
    # The page says what was done from the history, which is true for whoever loads it.
    return RedirectResponse(link(request, "builds"), status_code=303)


class RollbackRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    live: str | None = None
    """Id of the build that is believed live; another: 409, and nothing is done. Not given: whichever is."""


class RollbackAnswer(BaseModel):
    live: str | None
    """Id of the build that is live from now on; null: the model without any."""
    previous: str | None


@api_router.post("/builds/rollback", responses={code: {} for code in (401, 409, 503)})
async def roll_back(
    request: Request,
    authorization: Annotated[str, Header(description="`Bearer TOKEN`")] = "",
    asked: Annotated[RollbackRequest | None, Body()] = None,
) -> RollbackAnswer:
    """Moves back to the last build that was live before and may still serve, or to none."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        token = ""
    believed = None if asked is None else asked.live
    try:
        moved = await _wait_for_rollback(board_of(request), token, believed, missing="send Authorization: Bearer TOKEN")
    except _Refused as refused:
        status_code = 401 if refused.status_code == 403 else refused.status_code
        headers = {"www-authenticate": "Bearer"} if status_code == 401 else None
        raise HTTPException(status_code, refused.message, headers=headers) from refused
    return RollbackAnswer(live=moved.live, previous=moved.previous)


async def _wait_for_rollback(board: Board, token: str, live: str | None, *, missing: str) -> Moved:
    return await to_thread.run_sync(partial(_roll_back, board, token, live, missing=missing), limiter=_WAITING)


def _roll_back(board: Board, token: str, live: str | None, *, missing: str) -> Moved:
    """`live` None: whichever is. Raises _Refused."""
    if not token.strip():
        raise _Refused(403, missing)
    try:
        name = name_of(board, token)
    except TokensUnreadable as fault:
        raise _Refused(503, str(fault)) from fault
    if name is None:
        raise _Refused(403, "that token is none of this leaderboard's")
    with _ONE_AT_A_TIME:
        now_live = board.builds.current()
        if live is not None and live != (now_live or ""):
            shown = "no build is live" if now_live is None else f"build {now_live[:12]} is live"
            raise _Refused(409, f"{shown} by now: look at it, then ask again")
        try:
            # Again there, where no command can come in between.
            return board.actions.rollback(f"{name} (leaderboard)", live)
        except ActionRefused as refused:
            raise _Refused(409, str(refused)) from refused
        finally:
            board.forget_serving()
