"""What a request meets in place of its answer."""

import re
import threading
import time
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Fault:
    method: str
    path: str
    """A pattern, found anywhere in the path."""
    status: int = 500
    body: object = field(default_factory=lambda: {"message": "Server Error"})
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    is_done: bool = False
    """The request is carried out all the same: only its answer is lost."""
    holds: bool = False
    """The request is answered with nothing until the test is over; `arrived` says that it came."""
    arrived: threading.Event = field(default_factory=threading.Event)

    def meets(self, method: str, path: str) -> bool:
        return self.times > 0 and method == self.method and re.search(self.path, path) is not None


def primary_limit(method: str, path: str, *, resets_in_s: float, **more: object) -> Fault:
    headers = {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(int(time.time() + resets_in_s)),
    }
    body = {"message": "API rate limit exceeded for installation ID 1."}
    return Fault(method=method, path=path, status=403, body=body, headers=headers, **more)


def secondary_limit(method: str, path: str, *, retry_after_s: int, status: int = 403, **more: object) -> Fault:
    body = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
    headers = {"retry-after": str(retry_after_s), "x-ratelimit-remaining": "4999"}
    return Fault(method=method, path=path, status=status, body=body, headers=headers, **more)
