"""A board over a ledger of its own, and the application over it, for tests that ask it as a browser would."""

from pathlib import Path

from starlette.testclient import TestClient

from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.serving_build.builds import BuildStore
from leaderboard.access.actions import ActionRefused, Moved
from leaderboard.access.tokens import TokenFile
from leaderboard.app import Site, make_app
from leaderboard.board import Board

HOST = "board.test"


class RefusingActions:
    """An `Actions` for pages that change nothing."""

    def rollback(self, by: str, live: str | None = None) -> Moved:
        raise ActionRefused(f"{by} may not roll back here")


def make_board(home: Path, **changes: object) -> Board:
    """Over a new ledger in `home`."""
    collaborators: dict[str, object] = {
        "ledger": Ledger(f"sqlite:///{home / 'ledger.sqlite'}"),
        "blobs": BlobStore(home / "blobs"),
        "builds": BuildStore(home),
        "counters": home / "counters",
        "actions": RefusingActions(),
        "tokens": TokenFile(home / "keys" / "leaderboard.json"),
    }
    return Board(**(collaborators | changes))  # type: ignore[arg-type]


def visit(board: Board, root_path: str = "") -> TestClient:
    """A browser, as it were, that knows the page as HOST; failures of the application are raised in the test."""
    return TestClient(make_app(board, Site(hosts=(HOST,), root_path=root_path)), base_url=f"http://{HOST}")
