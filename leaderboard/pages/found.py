"""What a path names, found; or 404, in the same words wherever it is asked for."""

from candidates.ledger.ledger import RunEntry
from candidates.serving_build.builds import BuildNotFound
from leaderboard.board import Board
from leaderboard.build_facts import BuildFacts, read_facts
from leaderboard.pages.render import not_found
from leaderboard.shown_builds import RefusedBuild, ShownBuild

_SHOWN = 80
"""Of an id that somebody made up, so many characters are said."""


def build_of(board: Board, build_id: str) -> ShownBuild:
    """The start of an id does where it is the only one."""
    try:
        return board.shown_builds.show(board.builds, build_id)
    except BuildNotFound as fault:
        raise not_found(f"no build, or more than one, has an id that starts with {build_id[:_SHOWN]!r}") from fault


def build_facts_of(board: Board, build_id: str) -> BuildFacts | RefusedBuild:
    found = read_facts(board, [build_of(board, build_id)])
    if not found:
        raise not_found(f"build {build_id[:_SHOWN]!r} was removed just now")
    return found[0]


def run_of(board: Board, run_id: str) -> RunEntry:
    found = board.ledger.run(run_id)
    if found is None:
        raise not_found(f"no run {run_id[:_SHOWN]} in the ledger")
    return found
