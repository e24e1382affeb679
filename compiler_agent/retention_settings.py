"""RetentionSettings: for how long things are kept that `compiler-agent prune` may remove, from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from compiler_agent.outcome import UserFault

_MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    candidates_days: int = 90
    """`COMPILER_AGENT_KEEP_CANDIDATES_DAYS`: artifacts and dialogues of candidates that won nothing."""
    progress_days: int = 30
    """`COMPILER_AGENT_KEEP_PROGRESS_DAYS`: lines of progress of a run, after its end."""
    logs_days: int = 30
    """`COMPILER_AGENT_KEEP_LOGS_DAYS`: log files, after their last line."""
    builds: int = 5
    """`COMPILER_AGENT_KEEP_BUILDS`: so many of the newest builds, and of those that a rollback would go to."""


def read_retention_settings(environment: Mapping[str, str] = os.environ) -> RetentionSettings:
    """Raises UserFault."""
    plain = RetentionSettings()
    return RetentionSettings(
        candidates_days=_number(environment, "CANDIDATES_DAYS", plain.candidates_days),
        progress_days=_number(environment, "PROGRESS_DAYS", plain.progress_days),
        logs_days=_number(environment, "LOGS_DAYS", plain.logs_days),
        builds=_number(environment, "BUILDS", plain.builds),
    )


def _number(environment: Mapping[str, str], name: str, plain: int) -> int:
    variable = f"COMPILER_AGENT_KEEP_{name}"
    text = environment.get(variable) or str(plain)
    # A day at least: what is younger may belong to work that nobody has recorded yet.
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST_DAYS:
        raise UserFault(f"{variable} is {text!r}: give a whole number from 1 to {_MOST_DAYS}")
    return int(text)
