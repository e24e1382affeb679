"""BuildActions: what the page may change, done on this home's builds as the commands do it."""

from candidates.serving_build.builds import LiveMoved, NothingToRollBack
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.signing import SigningKeyFault
from compiler_agent.roll_back import roll_back
from compiler_agent.settings import Settings
from leaderboard.access.actions import ActionRefused, Moved


class BuildActions:
    """An `Actions`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rollback(self, by: str, live: str | None = None) -> Moved:
        try:
            approval = roll_back(self._settings, by, live)
        except NothingToRollBack as error:
            raise ActionRefused("no build is live") from error  # whoever asks need not know where the home is
        except (LiveMoved, BuildRefused, SigningKeyFault) as error:
            raise ActionRefused(str(error)) from error
        return Moved(live=approval.build_id, previous=approval.previous)
