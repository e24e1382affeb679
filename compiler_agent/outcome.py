"""How a command ends: one JSON document or text on standard output, and an exit code that says whose turn it is."""

import json
import sys
from enum import IntEnum
from typing import Any

from pydantic import BaseModel
from rich.console import Console


class ExitCode(IntEnum):
    DONE = 0
    NOT_ACHIEVED = 1
    """The work ended without what was asked: nothing won, a candidate rejected."""
    USER_FAULT = 2
    """The user's input or machine is at fault; the message says what to do."""
    OUR_FAULT = 3
    INTERRUPTED = 130


class UserFault(Exception):
    """What the user gave or has cannot work; the message says what, where, and the next step."""


progress_console = Console(stderr=True)
"""Progress and logs: never on standard output, which belongs to the result."""

result_console = Console(width=None if sys.stdout.isatty() else 160)
"""Results; a file or a pipe has no width, so tables get one that they fit in."""


def print_json(document: BaseModel | dict[str, Any] | list[Any]) -> None:
    """Exactly one JSON document on standard output."""
    content = document.model_dump(mode="json") if isinstance(document, BaseModel) else document
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")
