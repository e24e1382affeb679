"""read_switch: a variable that turns something on or off."""

from collections.abc import Mapping

from compiler_agent.outcome import UserFault

_OFF, _ON = ("", "0", "false", "no", "off"), ("1", "true", "yes", "on")


def read_switch(environment: Mapping[str, str], variable: str) -> bool:
    """Off where it is not set. Raises UserFault."""
    word = environment.get(variable, "").strip().lower()
    if word not in (*_OFF, *_ON):
        raise UserFault(f"{variable} is {word!r}: give 1 or 0")
    return word in _ON
