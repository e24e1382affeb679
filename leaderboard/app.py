"""make_app: the pages and the API over one ledger. It starts no server; `compiler-agent leaderboard` does."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from candidates.ledger.ledger import LedgerError
from leaderboard.board import Board
from leaderboard.filters import FiltersRefused
from leaderboard.pages import home
from leaderboard.pages.render import STATIC, render
from leaderboard.security import Guard

_PAGES = (home,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """How browsers reach the page."""

    hosts: Sequence[str]
    """Names that it may be asked by, see Guard."""
    root_path: str = ""
    """Where a proxy mounts it: `/leaderboard`."""
    public_origin: str | None = None
    """What browsers call it where a proxy takes TLS off: `https://board.example.org`."""


def make_app(board: Board, site: Site) -> ASGIApp:
    app = FastAPI(
        title="Compiler Agent leaderboard",
        root_path=site.root_path,
        docs_url=None,  # its page loads scripts from other hosts
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    app.state.board = board
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for page in _PAGES:
        app.include_router(page.router, include_in_schema=False)
    app.add_exception_handler(HTTPException, _http_fault)
    app.add_exception_handler(FiltersRefused, _refused)
    app.add_exception_handler(LedgerError, _missing)
    return Guard(app, site.hosts, public_origin=site.public_origin)


def _http_fault(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    return _say(request, fault.status_code, fault.detail)


def _refused(request: Request, fault: Exception) -> Response:
    return _say(request, 400, str(fault))


def _missing(request: Request, fault: Exception) -> Response:
    """An id that is not in the ledger, or not unique."""
    return _say(request, 404, str(fault))


def _say(request: Request, status_code: int, message: str) -> Response:
    if request.url.path.startswith(f"{request.scope.get('root_path', '')}/api/"):
        return JSONResponse({"detail": message}, status_code=status_code)
    page: HTMLResponse = render(request, "fault.html", status_code=status_code, status=status_code, message=message)
    return page
