"""Text of others (kernels, models, traces) made fit for a pull request: it can be read, and do nothing else.

It cannot mention people, link or close issues (also where a merge copies it into a commit message), bring HTML or
Markdown, hide or turn characters, or leave the code span, table cell or fence that it stands in.
"""

import re

from candidates.printable import printable

_GAP = "\u200b"
"""A blank without width: what it divides reads as before, and is no mention or reference to a forge."""
# GitHub's, GitLab's and Gitea's: people and teams, issues, merge requests, links, addresses, commits across projects.
_REFERENCES = re.compile(r"(?<=[@#!])(?=\w)|(?<=://)|(?<=[Gg][Hh])(?=-\d)|(?<=[Ww][Ww][Ww])(?=\.)")


def inert(text: str) -> str:
    """`printable`, and what a forge takes for a mention or a reference is divided."""
    return _REFERENCES.sub(_GAP, printable(text))


def code(text: str, most: int = 120) -> str:
    """A code span, also for a cell of a table: one line, cut at `most` characters."""
    line = " ".join(inert(_cut(text, most)).split()) or "(empty)"
    # A pipe ends a cell even within a code span, and its escape would show outside of a table.
    line = line.replace("|", "\N{BROKEN BAR}")
    ticks = "`" * (_longest_run(line, "`") + 1)
    blank = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{blank}{line}{blank}{ticks}"


def fence(text: str, language: str = "", most: int = 4000) -> str:
    """A fenced block, cut at `most` characters; `language` is ours."""
    content = inert(_cut(text, most)).rstrip("\n")
    bars = "`" * max(3, _longest_run(content, "`") + 1)
    return f"{bars}{language}\n{content}\n{bars}"


def plain_word(text: str, most: int = 60) -> str:
    """For titles, which become commit messages: letters, digits, dots and underscores."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", text)[:most].strip("._") or "op"


def slug(text: str, most: int = 40) -> str:
    """For branches, folders and names of tests: small letters, digits and underscores, a letter first."""
    word = re.sub(r"[^a-z0-9]+", "_", text.lower())[:most].strip("_")
    return word if word[:1].isalpha() else f"op_{word}".strip("_")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most} more characters)"


def _longest_run(text: str, character: str) -> int:
    return max((len(run) for run in re.findall(f"{re.escape(character)}+", text)), default=0)
