"""Addresses that a chart may link to: pages of this site, and nothing a browser would run or fetch elsewhere."""

import re

from leaderboard.charts.text import escaped_bytes

LONGEST_HREF = 200
"""Bytes as written, where & is &amp;: two SHA-256 in a path, with room for words."""

LETTERS = r"\w.~!$&'()*+,;=@%-"
RELATIVE_HREF = re.compile(rf"(?!//)[{LETTERS}]*(?:[/?#][{LETTERS}:/?#]*)?", re.ASCII)
"""No colon before the first slash, question mark or hash, so no scheme; no two slashes at the start, so no host."""


def check_href(href: str | None) -> None:
    """Raises ValueError, the caller's fault, for a scheme, a host, or a character that belongs percent-encoded."""
    if href is not None and (escaped_bytes(href) > LONGEST_HREF or not RELATIVE_HREF.fullmatch(href)):
        raise ValueError(f"not a relative address of at most {LONGEST_HREF} bytes of safe characters: {href!r:.120}")
