"""Actions: what the page may change. Who asks has shown a token before; what is done is done elsewhere."""

from dataclasses import dataclass
from typing import Protocol


class ActionRefused(Exception):
    """What was asked cannot be done; the message is for the person who asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    live: str | None
    """Id of the build that is live from now on; None: the model without any."""
    previous: str | None


class Actions(Protocol):
    def rollback(self, by: str, live: str | None = None) -> Moved:
        """Back to the last build that was live before and may still serve. `live`: which build must be the one that
        is, when it is done; None: any. Raises ActionRefused."""
        ...
