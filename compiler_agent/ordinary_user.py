"""require_ordinary_user: what serves for long, or others than this machine, does so without root's rights."""

import os

from compiler_agent.outcome import UserFault
from compiler_agent.settings import Settings


def require_ordinary_user(settings: Settings, what: str) -> None:
    """Raises UserFault for root, unless it was told that it may."""
    if os.geteuid() == 0 and not settings.allow_root:
        raise UserFault(
            f"{what} does not run as root: start it as a user of its own, who owns {settings.home}; or, where root is "
            "all there is, set COMPILER_AGENT_ALLOW_ROOT=1 (worker.allow_root)"
        )
