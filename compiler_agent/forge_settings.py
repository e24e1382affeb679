"""ForgeSettings: whether, where and how pull requests are opened, from the environment."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from candidates.pull_requests.decide import Rules
from candidates.pull_requests.publish import Style
from candidates.pull_requests.win import Grouping
from compiler_agent.outcome import UserFault
from compiler_agent.switches import read_switch

C = TypeVar("C", bound=StrEnum)


class ForgeName(StrEnum):
    """`FORGES` in `wiring` says which class."""

    LOCAL = "local"
    GITHUB = "github"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeSettings:
    forge: ForgeName
    """`COMPILER_AGENT_FORGE`: `local` unless it says otherwise."""
    repository: str
    """`COMPILER_AGENT_REPOSITORY`: a folder, or owner/name. Without it there are no pull requests."""
    base_branch: str | None
    """`COMPILER_AGENT_BASE_BRANCH`; None: the repository's default branch."""
    api_url: str | None
    """`COMPILER_AGENT_FORGE_URL`: of GitHub Enterprise, https://HOST/api/v3."""
    token_variable: str
    """`COMPILER_AGENT_TOKEN_VARIABLE`: which variable holds the token, GITHUB_TOKEN unless it says otherwise."""
    token_file: Path | None
    """`COMPILER_AGENT_TOKEN_FILE`: read where the variable is not set."""
    grouping: Grouping
    """`COMPILER_AGENT_PULL_REQUEST_PER`: `promotion` or `op`."""
    style: Style
    """`COMPILER_AGENT_PULL_REQUEST_FOLDER`, `…_LABELS` (commas between them), `…_DRAFT` (1), `…_LIMIT` (3)."""


def read_forge_settings(environment: Mapping[str, str] = os.environ) -> ForgeSettings | None:
    """None: no repository is configured. Raises UserFault."""
    repository = environment.get("COMPILER_AGENT_REPOSITORY")
    if not repository:
        return None
    read = _Reader(environment)
    token_file = environment.get("COMPILER_AGENT_TOKEN_FILE")
    plain = Style()
    labels = environment.get("COMPILER_AGENT_PULL_REQUEST_LABELS", ",".join(plain.labels))
    return ForgeSettings(
        forge=read.choice("COMPILER_AGENT_FORGE", ForgeName, ForgeName.LOCAL),
        repository=repository,
        base_branch=environment.get("COMPILER_AGENT_BASE_BRANCH") or None,
        api_url=environment.get("COMPILER_AGENT_FORGE_URL") or None,
        token_variable=environment.get("COMPILER_AGENT_TOKEN_VARIABLE") or "GITHUB_TOKEN",
        token_file=Path(token_file).expanduser() if token_file else None,
        grouping=read.choice("COMPILER_AGENT_PULL_REQUEST_PER", Grouping, Grouping.PROMOTION),
        style=Style(
            folder=read.folder("COMPILER_AGENT_PULL_REQUEST_FOLDER", plain.folder),
            labels=tuple(filter(None, (label.strip() for label in labels.split(",")))),
            is_draft=read_switch(environment, "COMPILER_AGENT_PULL_REQUEST_DRAFT"),
            rules=Rules(most_open=read.count("COMPILER_AGENT_PULL_REQUEST_LIMIT", plain.rules.most_open)),
        ),
    )


def read_token(settings: ForgeSettings, environment: Mapping[str, str] = os.environ) -> str:
    """Raises UserFault where there is none, or something else."""
    source, token = settings.token_variable, environment.get(settings.token_variable, "").strip()
    if not token:
        if settings.token_file is None:
            raise UserFault(
                "no token for the repository: set GITHUB_TOKEN or the variable that "
                "COMPILER_AGENT_TOKEN_VARIABLE names, or COMPILER_AGENT_TOKEN_FILE to a file"
            )
        source = "the file that COMPILER_AGENT_TOKEN_FILE names"
        try:
            token = settings.token_file.read_text().strip()
        except (OSError, ValueError) as error:
            raise UserFault(f"cannot read {source} ({type(error).__name__}): name a file with a token") from None
    if not re.fullmatch(r"[!-~]+", token):
        raise UserFault(f"{source} does not hold a token alone: it has blanks, controls or letters beyond ASCII")
    return token


class _Reader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def choice(self, variable: str, kind: type[C], default: C) -> C:
        word = self._environment.get(variable) or default
        try:
            return kind(word)
        except ValueError:
            # Without the word, here and below: it may be a secret in the wrong place.
            raise UserFault(f"{variable} names none that there is: there are {', '.join(kind)}") from None

    def count(self, variable: str, default: int) -> int:
        word = self._environment.get(variable) or str(default)
        if not re.fullmatch(r"[0-9]{1,6}", word):
            raise UserFault(f"{variable}: give a whole number")
        return int(word)

    def folder(self, variable: str, default: str) -> str:
        word = (self._environment.get(variable) or default).strip("/")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*", word):
            raise UserFault(f"{variable}: give a folder in the repository, such as src/kernels")
        return word
