"""Whether anybody may act on the page, and who does: what is between the token file and a request."""

import logging

from leaderboard.access.tokens import TokenFault
from leaderboard.board import Board

_LOG = logging.getLogger(__name__)

UNREADABLE = "the tokens cannot be read: see the log of the leaderboard"


class TokensUnreadable(Exception):
    """The file is not to be trusted or read; the log says why, and readers are not told of paths."""


def may_act(board: Board) -> bool | None:
    """False: nobody has a token. None: the file cannot be read."""
    try:
        return bool(board.tokens.names())
    except (TokenFault, OSError):
        _LOG.exception("tokens cannot be read")
        return None


def name_of(board: Board, token: str) -> str | None:
    """Whose token it is; None: nobody's. Raises TokensUnreadable."""
    try:
        return board.tokens.verify(token.strip())
    except (TokenFault, OSError) as fault:
        _LOG.exception("tokens cannot be read")
        raise TokensUnreadable(UNREADABLE) from fault
