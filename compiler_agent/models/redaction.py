"""Redaction: keys never reach a transcript, a message or a screen, not even where an endpoint repeats them."""

import json
import re
from collections.abc import Iterable
from typing import TypeVar

from candidates.record import Record
from compiler_agent.models.completion import (
    Completion,
    ModelClient,
    ModelRejectedRequest,
    ModelRequest,
    ModelUnavailable,
)
from compiler_agent.models.texts import change_texts, repair_surrogates

R = TypeVar("R", bound=Record)

REDACTED = "[redacted key]"

_LOOKS_LIKE_A_KEY = re.compile(
    r"(?:(?<![\w-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))sk-[A-Za-z0-9_*.-]{12,}|(?<=Bearer )[A-Za-z0-9_.~+/=-]{12,}"
)
"""OpenAI's and Anthropic's keys, also half masked as their error messages show them; anything sent as a bearer.

A text may hold JSON (a tool's arguments): there a key that begins a line stands behind the letter of an escape."""

_SHORTEST_SECRET = 6
"""A shorter "key" (`none`, `EMPTY`: what local servers are given) is no secret, but a common word."""


class Redactor:
    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {
            form
            for secret in secrets
            if len(secret) >= _SHORTEST_SECRET
            for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        }
        # The longest first: one key may begin with another.
        known = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(secret) for secret in known)) if known else None

    def redact(self, text: str) -> str:
        """Text that can be written: also without halves of surrogate pairs, which no file or database takes."""
        text = repair_surrogates(text)
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        return _LOOKS_LIKE_A_KEY.sub(REDACTED, text)

    def redact_record(self, record: R) -> R:
        return change_texts(record, self.redact)


class Redacting:
    """A ModelClient whose completions and failures hold no key."""

    def __init__(self, client: ModelClient, redactor: Redactor) -> None:
        self._client, self._redactor = client, redactor

    def complete(self, request: ModelRequest) -> Completion:
        try:
            completion = self._client.complete(request)
        # Without the cause: a traceback would print the original message.
        except ModelUnavailable as error:
            raise ModelUnavailable(self._redactor.redact(str(error)), retry_after_s=error.retry_after_s) from None
        except ModelRejectedRequest as error:
            raise ModelRejectedRequest(self._redactor.redact(str(error))) from None
        return self._redactor.redact_record(completion)
