"""A row's fields, read strictly: a number is a number of the right kind in the right range, or the row is dropped."""

import json
import math
from collections.abc import Mapping
from typing import Any

MOST_TOKENS = 2**31 - 1
"""A longer prompt or output is no request but a broken number."""


class UnusableRow(Exception):
    """The row is dropped; the argument is the reason that it is counted by."""

    @property
    def reason(self) -> str:
        return str(self.args[0])


def parse_json_object(text: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableRow("bad_json") from None
    if not isinstance(row, dict):
        raise UnusableRow("not_an_object")
    return row


def required(row: Mapping[str, Any], name: str) -> Any:
    value = row.get(name)
    if value is None:
        raise UnusableRow(f"missing_{name}")
    return value


def token_count(value: object, name: str) -> int:
    """A count of at least 1. JSON's true and 5.0 are no counts."""
    if type(value) is not int:
        raise UnusableRow(f"not_an_integer_{name}")
    if value == 0:
        raise UnusableRow(f"zero_{name}")
    if value < 0:
        raise UnusableRow(f"negative_{name}")
    if value > MOST_TOKENS:
        raise UnusableRow(f"too_large_{name}")
    return value


def time_in_units(value: object, name: str) -> float:
    """A finite number of at least 0, in whatever unit the format counts."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UnusableRow(f"not_a_number_{name}")
    try:
        time = float(value)
    except OverflowError:
        raise UnusableRow(f"not_finite_{name}") from None
    if not math.isfinite(time):
        raise UnusableRow(f"not_finite_{name}")
    if time < 0:
        raise UnusableRow(f"negative_{name}")
    return time


def optional_text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise UnusableRow(f"not_a_text_{name}")
    return value
