"""What model calls may cost and what they did: usage, caps, calls, their ends, and why spending stopped.

An *account* is what a cap is set on: a run, an op within a run. A call is counted on every account that it names.
"""

import math
from enum import StrEnum
from typing import Literal

from pydantic import Field

from candidates.record import Record

NANO_USD_PER_USD = 1_000_000_000

MOST_TOKENS_OF_CALL = 10**9
"""Of each kind. An endpoint that says more has miscounted, and the ledger's sums have 64 bits."""

MOST_USD = 1e9
MOST_TOKENS = 10**15
MOST_SECONDS = 1e12
MOST_CALLS = 10**12
"""Of caps: as columns of the ledger they have 64 bits, dollars counted in nano-dollars."""


class Usage(Record):
    """Tokens billed, each counted once."""

    input_tokens: int = Field(ge=0, le=MOST_TOKENS_OF_CALL)
    """Neither read from a cache nor written to one."""
    cache_read_tokens: int = Field(ge=0, le=MOST_TOKENS_OF_CALL, default=0)
    cache_write_tokens: int = Field(ge=0, le=MOST_TOKENS_OF_CALL, default=0)
    output_tokens: int = Field(ge=0, le=MOST_TOKENS_OF_CALL)
    """Thinking included."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens


class Amount(Record):
    """What a call takes from its accounts. Whole numbers: their sums are exact in any order."""

    nano_usd: int = Field(ge=0)
    tokens: int = Field(ge=0)
    """Read and written, cached ones included."""
    milliseconds: int = Field(ge=0)
    """Time that the call took; parallel calls each count theirs."""
    calls: int = Field(ge=0, default=1)

    @property
    def usd(self) -> float:
        return self.nano_usd / NANO_USD_PER_USD


class Caps(Record):
    """What an account may take at most. None: not capped."""

    usd: float | None = Field(ge=0, le=MOST_USD, default=None)
    tokens: int | None = Field(ge=0, le=MOST_TOKENS, default=None)
    seconds: float | None = Field(ge=0, le=MOST_SECONDS, default=None)
    """Of model time, summed over calls; the clock on the wall is the workflow's."""
    calls: int | None = Field(ge=0, le=MOST_CALLS, default=None)

    @property
    def nano_usd(self) -> int | None:
        # Down, so that a fraction of a nano-dollar never lets a cap be passed.
        return None if self.usd is None else math.floor(self.usd * NANO_USD_PER_USD)

    @property
    def milliseconds(self) -> int | None:
        return None if self.seconds is None else math.floor(self.seconds * 1000)


class ModelBudget(Record):
    """Which endpoints the agents of a run may ask, and what that may cost."""

    endpoints: tuple[str, ...] = ()
    """By name; none: no model is asked."""
    run: Caps = Caps()
    """Of the account that the whole run shares."""
    op: Caps = Caps()
    """Of each op's own account."""
    device_usd_per_hour: float | None = Field(ge=0, default=None)
    """What the device costs that the traffic keeps busy. With it, no op may cost more than it can save."""
    payback_days: float = Field(gt=0, default=7.0)
    """In so many days of that traffic."""

    def for_op(self, recoverable_share: float) -> "ModelBudget":
        """The budget of an op where a perfect kernel would give back this share of device time."""
        if self.device_usd_per_hour is None:
            return self
        # The share first: nothing of a product past all bounds would be no number.
        worth_usd = recoverable_share * self.device_usd_per_hour * 24 * self.payback_days
        usd = min(worth_usd, MOST_USD if self.op.usd is None else self.op.usd)
        return self.model_copy(update={"op": self.op.model_copy(update={"usd": usd})})


def run_account(run_id: str) -> str:
    return run_id


def op_account(run_id: str, task_id: str) -> str:
    return f"{run_id}/{task_id[:16]}"


class Balance(Record):
    """An account: what it may take, and what calls took or have reserved."""

    account: str
    caps: Caps
    used: Amount

    @property
    def usd_left(self) -> float:
        """Infinite where dollars are not capped."""
        return math.inf if self.caps.usd is None else max(0.0, self.caps.usd - self.used.usd)


Limit = Literal["nano_usd", "tokens", "milliseconds", "calls"]
LIMITS: tuple[Limit, ...] = ("nano_usd", "tokens", "milliseconds", "calls")


class BudgetStop(Record):
    """Why a call was not made: with its worst case, `account` would have passed its cap on `limit`.

    `used` holds what calls in flight have reserved.
    """

    kind: Literal["budget_stop"] = "budget_stop"
    account: str
    limit: Limit
    cap: int
    used: int
    asked: int

    def __str__(self) -> str:
        say, unit = (_in_dollars, "") if self.limit == "nano_usd" else (str, f" {self.limit}")
        return (
            f"{self.account} has used or reserved {say(self.used)} of {say(self.cap)}{unit}, and the next call may "
            f"take {say(self.asked)}"
        )


def _in_dollars(nano_usd: int) -> str:
    """Not rounded: an account just below its cap must not read as one at it."""
    dollars, nano = divmod(nano_usd, NANO_USD_PER_USD)
    return f"${dollars}.{f'{nano:09}'.rstrip('0').ljust(2, '0')}"


class ModelCall(Record):
    """A call as it was reserved, before it was sent."""

    call_id: str = Field(min_length=1, max_length=256)
    """The caller's own, equal when the same call is asked for again: `run-7/3f2a/generation-2/sample-1`."""
    endpoint: str
    model: str
    accounts: tuple[str, ...] = Field(min_length=1)
    reserved: Amount
    request: str
    """Blob of the request."""

    @property
    def begins_sample(self) -> bool:
        """Whether it is the first call for a kernel, which its id says; a second one has another name."""
        return self.call_id.rpartition("/")[2].startswith("sample-")


class CallOutcome(StrEnum):
    REPLY = "reply"
    REFUSED = "refused"
    CUT_OFF = "cut_off"
    EMPTY = "empty"
    FILTERED = "filtered"
    BROKEN = "broken"
    """The stream broke off, or was no valid JSON: the endpoint may have billed it."""
    UNAVAILABLE = "unavailable"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    """Our side stopped waiting."""
    LOST = "lost"
    """The worker died between reserving and settling."""


class ModelCallEnd(Record):
    """What a call came to. `answer` is the blob of the completion; None where none arrived."""

    outcome: CallOutcome
    spent: Amount
    is_spend_known: bool
    """False: the endpoint did not say what it billed, and the call counts at its reservation."""
    usage: Usage | None = None
    answer: str | None = None
    message: str = ""


class RecordedCall(Record):
    """One try of a call. `end` is None while it is open."""

    try_number: int = Field(ge=1)
    call: ModelCall
    end: ModelCallEnd | None
