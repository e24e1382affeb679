"""GitHubForge: pull requests on GitHub or GitHub Enterprise, by PyGithub, and pushes by git over HTTPS.

Every call looks before it writes, so that it may be made again when an answer was lost. Short rate limits are waited
for; longer ones and failures of GitHub's are ForgeBusy, for the caller to come back later.
"""

import base64
import logging
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import github
import github.PullRequest
import requests
from github.GithubException import GithubException

from candidates.forge import (
    BRANCH_PREFIX,
    Checkout,
    ForgeBusy,
    ForgeRefused,
    PullRequest,
    PullRequestState,
    PullRequestText,
)
from compiler_agent.forges.git import Git, temporary_clone
from compiler_agent.forges.github_address import API_URL, git_url, repository_name

T = TypeVar("T")

_PER_PAGE = 100
_TRIES = 4
_FAILED_WAIT_S = 2.0
"""After a failure of GitHub's; doubled each time."""
_SECONDARY_WAIT_S = 60.0
"""What GitHub asks for where a secondary limit names no time."""


class GitHubForge:
    def __init__(
        self,
        name: str,
        token: str,
        *,
        api_url: str = API_URL,
        base_branch: str | None = None,
        most_wait_s: float = 90.0,
        seconds_between_writes: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`name`: owner/repository. `most_wait_s`: longer waits are left to the caller. Raises ForgeRefused."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", name) or set(name.split("/")) & {".", ".."}:
            raise ForgeRefused("no repository on GitHub is named: set COMPILER_AGENT_REPOSITORY to owner/name")
        self._name, self._base, self._most_wait_s, self._sleep = name, base_branch, most_wait_s, sleep
        self._git_url, protocol = git_url(api_url, name)
        credentials = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        self._git = Git(
            protocol,
            {f"http.{self._git_url}.extraHeader": f"Authorization: Basic {credentials}"},
            hidden=(self._git_url,),
        )
        # It warns, with addresses, of what is raised here anyway.
        logging.getLogger("github").setLevel(logging.ERROR)
        # Its own retries would repeat a POST whose answer was lost, and wait for an hour.
        self._api = github.Github(
            auth=github.Auth.Token(token),
            base_url=api_url,
            retry=None,
            timeout=30,
            per_page=_PER_PAGE,
            seconds_between_requests=0.0,
            seconds_between_writes=seconds_between_writes,
            user_agent="compiler-agent",
            lazy=True,
        )
        self._repository = self._api.get_repo(name)

    @property
    def repository(self) -> str:
        return repository_name(self._git_url)

    def checkout(self) -> AbstractContextManager[Checkout]:
        return temporary_clone(self._git, self._git_url, self._base)

    def find(self, branch: str) -> PullRequest | None:
        return self._call("read pull requests", lambda: self._latest(branch, state="all"))

    def list_open(self) -> Iterator[PullRequest]:
        def read() -> list[PullRequest]:
            found = self._repository.get_pulls(state="open", sort="created", direction="asc")
            return [_shown(each) for each in found if self._is_ours(each)]

        yield from self._call("list pull requests", read)

    def put(self, branch: str, text: PullRequestText, *, is_draft: bool) -> PullRequest:
        def write() -> PullRequest:
            known = self._latest(branch, state="open")
            if known is not None:
                if known.text == text:
                    return known
                self._repository.get_pull(known.number).edit(title=text.title, body=text.body)
                return known.model_copy(update={"text": text})
            base = self._base or self._repository.default_branch
            made = self._repository.create_pull(base, branch, title=text.title, body=text.body, draft=is_draft)
            return _shown(made)

        return self._call("open a pull request", write)

    def label(self, number: int, labels: tuple[str, ...]) -> None:
        if labels:
            self._call("label a pull request", lambda: self._repository.get_issue(number).add_to_labels(*labels))

    def comment(self, number: int, text: str, marker: str) -> None:
        mark = f"<!-- compiler-agent {marker} -->"

        def write() -> None:
            issue = self._repository.get_issue(number)
            if all(mark not in (each.body or "") for each in issue.get_comments()):
                issue.create_comment(f"{text}\n\n{mark}\n")

        self._call("comment on a pull request", write)

    def close(self, number: int) -> None:
        self._call("close a pull request", lambda: self._repository.get_pull(number).edit(state="closed"))

    def _latest(self, branch: str, state: str) -> PullRequest | None:
        owner = self._name.split("/")[0]
        found = self._repository.get_pulls(state=state, head=f"{owner}:{branch}", sort="created", direction="desc")
        ours = [each for each in found if each.head.ref == branch and self._is_ours(each)]
        return _shown(max(ours, key=lambda each: each.number)) if ours else None

    def _is_ours(self, request: github.PullRequest.PullRequest) -> bool:
        """A branch of this name in somebody's fork is not ours."""
        # The repository of a deleted fork is null.
        home = request.head.repo
        is_here = home is not None and home.full_name.lower() == self._name.lower()
        return is_here and request.head.ref.startswith(BRANCH_PREFIX)

    def _call(self, what: str, function: Callable[[], T]) -> T:
        for tried in range(1, _TRIES + 1):
            try:
                return function()
            except GithubException as error:
                failure = _failure(what, error, tried)
            except (requests.ConnectionError, requests.Timeout) as error:
                # Without its text, which has the address.
                message = f"cannot {what}: GitHub cannot be reached ({type(error).__name__})"
                failure = ForgeBusy(message, _FAILED_WAIT_S * 2**tried)
            except (requests.RequestException, UnicodeError) as error:
                # Its text may have the token.
                failure = ForgeRefused(
                    f"cannot {what}: the request cannot be sent ({type(error).__name__}): look at the token and at "
                    "COMPILER_AGENT_FORGE_URL"
                )
            if isinstance(failure, ForgeRefused) or tried == _TRIES or failure.retry_after_s > self._most_wait_s:
                raise failure
            self._sleep(failure.retry_after_s)
        raise AssertionError("the last try returns or raises")


def _failure(what: str, error: GithubException, tried: int) -> ForgeRefused | ForgeBusy:
    headers = {key.lower(): value for key, value in (error.headers or {}).items()}
    said = _message(error)
    cannot = f"cannot {what}"
    is_limit = "rate limit" in said.lower() or headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    match error.status:
        case 403 | 429 if is_limit or error.status == 429:
            wait_s = _wait_s(headers)
            return ForgeBusy(f"{cannot}: GitHub's rate limit, for {math.ceil(wait_s)} s more ({said})", wait_s)
        case 401:
            return ForgeRefused(f"{cannot}: GitHub does not take the token ({said}): give a valid one")
        case 403:
            return ForgeRefused(
                f"{cannot}: the token is not allowed to ({said}): it needs contents, pull requests and issues, "
                "each read and write"
            )
        case 404:
            return ForgeRefused(f"{cannot}: there is no such repository, or the token may not see it")
        case 422 if "already exists" in said:
            # Opened meanwhile, or by a call whose answer was lost: the next try finds it.
            return ForgeBusy(f"{cannot}: {said}", _FAILED_WAIT_S)
        case 422:
            return ForgeRefused(f"{cannot}: {said}")
        case status if status >= 500:
            return ForgeBusy(f"{cannot}: GitHub fails ({status})", _FAILED_WAIT_S * 2 ** (tried - 1))
        case status:
            return ForgeRefused(f"{cannot}: GitHub answers {status}: {said}")


def _wait_s(headers: dict[str, str]) -> float:
    if (after := headers.get("retry-after", "")).isdigit():
        return float(after)
    if headers.get("x-ratelimit-remaining") == "0" and (reset := headers.get("x-ratelimit-reset", "")).isdigit():
        return max(1.0, int(reset) + 1.0 - time.time())
    return _SECONDARY_WAIT_S


def _message(error: GithubException) -> str:
    content = error.data if isinstance(error.data, dict) else {}
    parts = [str(content.get("message") or error.message or "no reason given")]
    for each in content.get("errors") or ():
        parts.append(str(each.get("message") or each.get("code")) if isinstance(each, dict) else str(each))
    return "; ".join(parts)[:500]


def _shown(request: github.PullRequest.PullRequest) -> PullRequest:
    merged = request.merged_at is not None
    closed = request.state == "closed"
    state = PullRequestState.MERGED if merged else PullRequestState.CLOSED if closed else PullRequestState.OPEN
    return PullRequest(
        number=request.number,
        url=request.html_url,
        branch=request.head.ref,
        state=state,
        text=PullRequestText(title=request.title, body=(request.body or "").replace("\r\n", "\n")),
        is_draft=bool(request.draft),
        labels=tuple(label.name for label in request.labels),
    )
