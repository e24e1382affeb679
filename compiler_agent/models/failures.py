"""What a failed HTTP exchange with a model endpoint means: try again, give up, or count it as billed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httpx2

from compiler_agent.models.completion import Broken, Filtered, ModelRejectedRequest, ModelUnavailable

_TURNED_AWAY = frozenset({409, 425, 429, 500, 502, 503, 529})
"""Statuses after which providers bill nothing and ask to try again. Not 408 and 504: work may have been done."""

_AWAY_TYPES = frozenset({"overloaded_error", "rate_limit_error", "rate_limit_exceeded", "server_is_overloaded"})

_QUOTA_CODES = frozenset({
    "insufficient_quota", "billing_hard_limit_reached", "enforced_spend_limit_reached", "contract_spend_limit_reached",
})  # fmt: skip
"""429s that no waiting mends (OpenAI's error codes; Anthropic SDK 2.14, `_error_classes.py`)."""

_FILTER_WORDS = ("content_filter", "content_policy_violation", "content management policy", "content filtering policy")


class HttpFailure(NamedTuple):
    """What an SDK's exception says, in no SDK's words."""

    status: int | None
    """None: no answer came. 200: the error came within the stream."""
    code: str
    """The endpoint's own type or code of error; empty where it gave none."""
    message: str
    headers: Mapping[str, str]


def judge_failure(failure: HttpFailure, text: str, has_begun: bool) -> Broken | Filtered:
    """The outcome of a call that failed so, `text` having arrived; `has_begun`: an event of the stream had.

    Raises ModelUnavailable and ModelRejectedRequest where nothing was billed.
    """
    said = f"{failure.status or ''} {failure.code} {failure.message}".strip()
    if any(words in said.lower() for words in _FILTER_WORDS):
        return Filtered(text=text, explanation=said)
    if failure.code in _QUOTA_CODES:
        raise ModelRejectedRequest(f"the quota is spent: {said}")
    is_away = failure.status in _TURNED_AWAY or failure.code in _AWAY_TYPES
    if is_away and not has_begun:
        raise ModelUnavailable(said, retry_after_s=retry_after_s(failure.headers))
    if failure.status in (None, 200, 408, 504) or is_away or failure.status >= 500:
        return Broken(text=text, problem=said)
    raise ModelRejectedRequest(_with_next_step(failure.status, said))


def judge_lost_connection(error: BaseException, text: str) -> Broken:
    """Raises ModelUnavailable where the request cannot have been sent."""
    cause = error if isinstance(error, httpx2.HTTPError) else error.__cause__
    problem = f"{type(cause or error).__name__}: {cause or error}"
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        raise ModelUnavailable(f"no connection ({problem})")
    return Broken(text=text, problem=f"connection lost ({problem})")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date (RFC 9110)."""
    milliseconds, given = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if _is_number(milliseconds):
        return float(milliseconds) / 1000
    if _is_number(given):
        return float(given)
    try:
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _with_next_step(status: int, said: str) -> str:
    match status:
        case 401 | 403:
            return f"{said}: check the key of this endpoint"
        case 402:
            return f"{said}: check the billing of this account"
        case 404:
            return f"{said}: check the model's name and the base URL"
        case _:
            return said
