"""FormStamps: the hidden field of a form, by which an action knows that the form came from this process.

It is no login and bound to nobody: who can read the page can read a stamp. What keeps other sites out is the Guard's
look at where a request comes from, and that no request carries a token by itself; a stamp stops what gets past both
without having read the page.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

_HOUR_S = 3600
_HOURS = 2


class FormStamps:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """The key is random and never leaves the process: forms from before a restart must be loaded again, and several
        processes behind one address do not know each other's."""
        self._key, self._clock = secrets.token_bytes(32), clock

    def issue(self, form: str) -> str:
        """Good for two hours at least, and for less than three."""
        return self._stamp(form, self._hour())

    def is_valid(self, form: str, value: str) -> bool:
        given, hour = value.encode("utf-8", "surrogatepass"), self._hour()
        stamps = (self._stamp(form, hour - back).encode() for back in range(_HOURS + 1))
        # A sum, so that each is compared whichever matches.
        return sum(hmac.compare_digest(stamp, given) for stamp in stamps) > 0

    def _hour(self) -> int:
        return int(self._clock() // _HOUR_S)

    def _stamp(self, form: str, hour: int) -> str:
        return hmac.new(self._key, f"{hour}\n{form}".encode(), hashlib.sha256).hexdigest()
