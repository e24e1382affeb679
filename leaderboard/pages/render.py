"""render: a template filled for a request. Everything is escaped; links know where a proxy mounts the page."""

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from candidates.printable import printable
from leaderboard import wording
from leaderboard.board import Board

_FOLDER = Path(__file__).parents[1]
STATIC = _FOLDER / "static"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_visible,
    )
    for name in (
        "speedup",
        "interval",
        "share",
        "usd",
        "count",
        "count_nouns",
        "microseconds",
        "seconds",
        "size",
        "age",
        "moment",
        "cut",
        "short",
    ):
        environment.filters[name] = getattr(wording, name)
    return environment


def _visible(value: object) -> object:
    """Text of others with its controls, lone surrogates and turns of direction shown and not obeyed."""
    if type(value) is not str or value.isprintable():
        return value
    return printable(value)


_ENVIRONMENT = _environment()


def board_of(request: Request) -> Board:
    board: Board = request.app.state.board
    return board


def link(request: Request, *parts: str, **query: object) -> str:
    """`link(request, "ops", "LlamaMLP.decode", device="cpu-1")`, below the path that a proxy mounts the page at.

    Parts may hold any text; what is None is left out of the query.
    """
    # Names of files may be no UTF-8.
    path = "/".join(quote(part, safe="", errors="replace") for part in parts)
    asked = urlencode([(name, str(value)) for name, value in query.items() if value is not None], errors="replace")
    return f"{request.scope.get('root_path', '')}/{path}" + (f"?{asked}" if asked else "")


def render(request: Request, template: str, *, status_code: int = 200, **context: Any) -> HTMLResponse:
    page = _ENVIRONMENT.get_template(template)
    text = page.render(request=request, link=partial(link, request), stamp=board_of(request).stamps.issue, **context)
    return HTMLResponse(text, status_code=status_code)


def not_found(what: str) -> HTTPException:
    return HTTPException(status_code=404, detail=what)
