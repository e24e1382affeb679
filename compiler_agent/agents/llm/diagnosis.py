"""Diagnosis: why a kernel is as slow as it is, asked for in one small call, as JSON that later prompts quote."""

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from candidates.record import Record

MOST_FIXES = 6

_Text = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]

REQUEST = """\
Don't write code now. Say what bounds this kernel's speed and what to do about it: the two to four fixes that promise
most, best first. Each must rest on a figure or a line above. Answer with JSON alone, a list of objects with exactly
these fields, all texts of one or two sentences:

[{"cause": "what bounds it", "evidence": "the figure or line above that shows it", "fix": "the change to make",
"expected_effect": "how much faster, and at which shapes"}]
"""


class Fix(Record):
    cause: _Text
    evidence: _Text
    fix: _Text
    expected_effect: _Text

    def as_text(self) -> str:
        return "\n".join(
            f"{name}: {text}"
            for name, text in (
                ("cause", self.cause),
                ("evidence", self.evidence),
                ("fix", self.fix),
                ("expected effect", self.expected_effect),
            )
        )


_MOST_CHARACTERS = 100_000
_FIXES = TypeAdapter(Annotated[list[Fix], Field(min_length=1)])


def read_fixes(reply: str) -> Sequence[Fix]:
    """The list in a reply, with or without a fence or words around it; empty where there is none of this form."""
    reply = reply[:_MOST_CHARACTERS]
    begin, end = reply.find("["), reply.rfind("]")
    if begin < 0 or end < begin:
        return ()
    try:
        return _FIXES.validate_python(json.loads(reply[begin : end + 1]))[:MOST_FIXES]
    except (ValueError, RecursionError, ValidationError):
        return ()
