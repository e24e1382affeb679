"""Retrying: asks again when an endpoint turned a call away, unbilled, with growing waits and a bound."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from compiler_agent.models.completion import Completion, ModelClient, ModelRequest, ModelUnavailable, Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    tries: int = 6
    first_wait_s: float = 1.0
    """Doubles with each retry."""
    longest_wait_s: float = 60.0
    """Also of what an endpoint asks for: one that wants more is not waited for."""


class Retrying:
    """A ModelClient. It never repeats a call that may have been billed: those end as Broken."""

    def __init__(
        self, client: ModelClient, policy: RetryPolicy | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client, self._policy, self._sleep = client, policy or RetryPolicy(), sleep

    def complete(self, request: ModelRequest) -> Completion:
        """Raises ModelUnavailable after the last try, or when the next would begin past `request.timeout_s`."""
        started = time.monotonic()
        retries: tuple[Retry, ...] = ()
        while True:
            left_s = request.timeout_s - (time.monotonic() - started)
            try:
                completion = self._client.complete(request.model_copy(update={"timeout_s": max(left_s, 1e-3)}))
            except ModelUnavailable as error:
                wait_s = self._wait_s(len(retries), error.retry_after_s)
                spent_s = time.monotonic() - started
                is_last = len(retries) + 1 >= self._policy.tries
                if is_last or wait_s > self._policy.longest_wait_s or spent_s + wait_s >= request.timeout_s:
                    raise ModelUnavailable(
                        f"{error} (tried {len(retries) + 1} times in {spent_s:.1f} s): try later",
                        retry_after_s=error.retry_after_s,
                    ) from error
                retries = (*retries, Retry(problem=str(error), waited_s=wait_s))
                self._sleep(wait_s)
            else:
                return completion.model_copy(update={"retries": retries, "seconds": time.monotonic() - started})

    def _wait_s(self, retries: int, asked_s: float | None) -> float:
        # Jitter, so that the callers that one overload turned away do not all come back at once.
        own_s = min(self._policy.longest_wait_s, self._policy.first_wait_s * 2.0**retries) * random.uniform(0.5, 1.0)
        return own_s if asked_s is None else asked_s + random.uniform(0, 0.1) * own_s
