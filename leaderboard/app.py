"""make_app: the pages and the API over one ledger. It starts no server; `compiler-agent leaderboard` does."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from fastapi import FastAPI
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from leaderboard import api, builds_api, feed
from leaderboard.board import Board
from leaderboard.http.faults import answer_faults
from leaderboard.http.guard import Guard
from leaderboard.http.heads import answer_heads
from leaderboard.http.process import PAGES_AT_ONCE
from leaderboard.pages import builds, candidate, compare, home, op, rollback, runs, transcript
from leaderboard.pages.render import STATIC
from leaderboard.webhooks.target import WebhookTarget

_PAGES = (home, runs, rollback, builds, candidate, op, compare, transcript)
"""The first whose path fits answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """How browsers reach the page."""

    hosts: Sequence[str]
    """Names that it may be asked by, see Guard."""
    root_path: str = ""
    """Where a proxy mounts it: `/leaderboard`."""
    public_origin: str | None = None
    """What browsers call it where a proxy takes TLS off: `https://board.example.org`."""


def make_app(board: Board, site: Site, webhooks: Sequence[WebhookTarget] = ()) -> ASGIApp:
    """`webhooks` are told what happens as long as the application runs."""
    app = FastAPI(
        title="Compiler Agent leaderboard",
        lifespan=partial(_deliver, board, webhooks),
        docs_url=None,  # its page loads scripts from other hosts
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        redirect_slashes=False,  # to http, where a proxy takes TLS off
    )
    app.state.board = board
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for page in _PAGES:
        app.include_router(page.router, include_in_schema=False)
    app.include_router(feed.router, include_in_schema=False)
    app.include_router(api.router)
    app.include_router(builds_api.router)
    app.include_router(rollback.api_router)
    answer_faults(app)
    return Guard(answer_heads(_below(app, site.root_path)), site.hosts, public_origin=site.public_origin)


def _below(app: ASGIApp, root_path: str) -> ASGIApp:
    """Mounted where a proxy does, whether the proxy strips the prefix from the path or not."""

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        if root_path and scope["type"] == "http":
            path: str = scope["path"]
            is_whole = path == root_path or path.startswith(f"{root_path}/")
            path = path if is_whole else f"{root_path}{path}"
            # The bare prefix, which a reader types, is the first page.
            scope = {**scope, "root_path": root_path, "path": f"{path}/" if path == root_path else path}
        await app(scope, receive, send)

    return mounted


@asynccontextmanager
async def _deliver(board: Board, webhooks: Sequence[WebhookTarget], app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = PAGES_AT_ONCE
    if not webhooks:
        yield
        return
    from leaderboard.webhooks.deliver import keep_delivering  # needs the library that signs

    delivering = asyncio.create_task(keep_delivering(board.ledger, webhooks, board.permalink))
    try:
        yield
    finally:
        delivering.cancel()
        with suppress(asyncio.CancelledError):
            await delivering
