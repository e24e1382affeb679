"""Text of others (models, compilers, candidates) made fit to be shown: it can be read, and do nothing else."""

import unicodedata

_UNFIT = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories: controls (C1 holds a one-byte CSI), what is invisible or turns the direction of text, so that
source reads otherwise than it compiles (Boucher and Anderson, "Trojan Source", 2021), lone surrogates, and what no font
has."""


def printable(text: str) -> str:
    """Newlines and tabs stay; every other control or invisible character becomes its escape, as `\\x1b`."""
    return "".join(_shown(character) for character in text.replace("\r\n", "\n"))


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _UNFIT:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
