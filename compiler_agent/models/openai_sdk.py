"""What the two OpenAI APIs share: the SDK's client, its failures, usage, cache keys and breakpoints."""

import re

import httpx2
import openai
from openai.types.completion_usage import CompletionUsage
from openai.types.responses import ResponseUsage

from candidates.record import digest_of
from candidates.spending import Usage
from compiler_agent.models.completion import Broken, Filtered, ModelRequest, Outcome
from compiler_agent.models.endpoints import Endpoint
from compiler_agent.models.failures import HttpFailure, judge_failure, judge_lost_connection
from compiler_agent.models.stream import CALL_TIMEOUT_HOOKS, MalformedStream
from compiler_agent.models.usage import believe_usage

FAILURES = (openai.APIError, httpx2.HTTPError, ValueError, MalformedStream)
"""What a call may raise: the endpoint, the connection, a line that is no JSON, an event of another shape."""

BREAKPOINT = {"mode": "explicit"}
"""`prompt_cache_breakpoint` of a content block (openai SDK 3.57, `ResponseInputTextParam`)."""


def open_sdk(endpoint: Endpoint, key: str | None) -> openai.OpenAI:
    # The SDK's own retries are off: a try that is not counted is not in the budget.
    return openai.OpenAI(
        api_key=key or "none",
        base_url=endpoint.base_url,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(event_hooks=CALL_TIMEOUT_HOOKS),
    )


def cache_key(request: ModelRequest) -> str:
    """Equal for requests that share a prefix: sends them to the machines that have it cached."""
    return digest_of([request.prefix, [tool.model_dump(mode="json") for tool in request.tools]])[:32]


def takes_breakpoints(endpoint: Endpoint) -> bool:
    """Explicit cache breakpoints are for gpt-5.6 and later (openai SDK 3.57, `prompt_cache_options`)."""
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", endpoint.model)
    return endpoint.is_vendors and version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 6)


def judge(error: Exception, text: str, has_begun: bool) -> Broken | Filtered:
    """Raises ModelUnavailable and ModelRejectedRequest."""
    match error:
        case openai.APIStatusError():
            failure = HttpFailure(error.status_code, error.code or error.type or "", str(error), error.response.headers)
            return judge_failure(failure, text, has_begun)
        case openai.APIConnectionError() | httpx2.HTTPError():
            return judge_lost_connection(error, text)
        case openai.APIError():  # an error within a stream that began with status 200
            return judge_failure(HttpFailure(200, error.code or error.type or "", str(error), {}), text, has_begun)
        case _:
            return Broken(text=text, problem=f"{type(error).__name__}: {error}")


def believe_openai_usage(
    outcome: Outcome, told: CompletionUsage | ResponseUsage | None, read: str, written: str
) -> Usage | None:
    """`read`, `written`: what the API calls tokens read and written."""
    # Compatible servers leave any of it out, whatever the SDK's types say.
    details = getattr(told, f"{read}_details", None)
    return believe_usage(
        outcome,
        read=getattr(told, read, None),
        cache_read=getattr(details, "cached_tokens", None),
        cache_write=getattr(details, "cache_write_tokens", None),
        written=getattr(told, written, None),
        read_has_cached=True,
    )
