"""The header of a candidate's source: leading comment lines that say what to call and how it was built.

The same in every language but for the comment's marker; each line at most once, all optional:

    // entry: kernel            the function to call (default `kernel`)
    // prepare: pack            the function that repacks parameters (default none)
    // launch: tile=8 rows=4    values that the source reads as LAUNCH_tile and LAUNCH_rows
    // flags: -funroll-loops    flags added to the build, in languages that take any
"""

import re
from pathlib import Path

from candidates.candidate import Candidate, LanguageName
from candidates.language import SourceRefused

KEYS = ("entry", "prepare", "launch", "flags")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LAUNCH_VALUE = re.compile(r"-?[0-9][0-9.eE+-]{0,99}|[A-Za-z_][A-Za-z0-9_]{0,99}")
_MOST_OPTIONS = 64
"""Flags and launch parameters of a candidate: a command line has its limits."""


def parse_text(text: str, name: str, language: LanguageName, keys: tuple[str, ...] = KEYS) -> Candidate:
    """A candidate from its text, whose header may have lines of `keys`. Raises ValueError with `name` and line."""
    header: dict[str, str] = {}
    comment = language.comment_marker
    line_with_key = re.compile(rf"{re.escape(comment)}\s*({'|'.join(KEYS)}):\s*(.*?)\s*")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith(comment):
            break
        if found := line_with_key.fullmatch(line):
            key, value = found.groups()
            if key not in keys:
                raise ValueError(f"{name}:{number}: {language.value} takes no `{key}:` line")
            if key in header:
                raise ValueError(f"{name}:{number}: a second `{key}:` line")
            if not value:
                raise ValueError(f"{name}:{number}: `{key}:` says nothing")
            header[key] = value
            if key == "launch" and not all(re.fullmatch(r"\w+=\S+", item) for item in value.split()):
                raise ValueError(f"{name}:{number}: launch parameters are written name=value")
    if not text.strip():
        raise ValueError(f"{name}:1: the file is empty")
    launch = dict(item.split("=", 1) for item in header.get("launch", "").split())
    return Candidate(
        language=language,
        source=text,
        entry=header.get("entry", "kernel"),
        prepare=header.get("prepare"),
        launch_parameters={key: _number_or_text(value) for key, value in launch.items()},
        build_flags=tuple(header.get("flags", "").split()),
    )


def read_text(path: Path) -> str:
    """Raises ValueError, with the path, for a file that is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error


def refuse_odd_options(candidate: Candidate) -> None:
    """What fits no command line and no source. Raises SourceRefused."""
    for entry in filter(None, (candidate.entry, candidate.prepare)):
        if not IDENTIFIER.fullmatch(entry) or entry.startswith("compiler_agent_"):
            raise SourceRefused(
                f"{entry[:100]!r} cannot name an entry: use a C identifier of up to 100 letters, without prefix "
                "compiler_agent_"
            )
    if (count := len(candidate.build_flags) + len(candidate.launch_parameters)) > _MOST_OPTIONS:
        raise SourceRefused(f"{count} flags and launch parameters: use {_MOST_OPTIONS} at most")
    for name, value in candidate.launch_parameters.items():
        if not IDENTIFIER.fullmatch(name) or not _LAUNCH_VALUE.fullmatch(str(value)):
            shown = f"{name}={value}"[:100]
            raise SourceRefused(f"launch parameter {shown} is not an identifier with a number or identifier")


def _number_or_text(text: str) -> int | float | str:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
