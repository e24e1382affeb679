"""Text of others (models, compilers, candidates) made fit for a terminal: it can show itself, and do nothing else."""

import re

_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Controls but tab and newline (C1 holds a one-byte CSI), and what is invisible or turns the direction of text: source
that reads otherwise than it compiles (Boucher and Anderson, "Trojan Source", 2021)."""


def printable(text: str) -> str:
    """Newlines and tabs stay; every other control or invisible character becomes its escape, as `\\x1b`."""
    return _UNFIT.sub(_escape, text.replace("\r\n", "\n"))


def _escape(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
