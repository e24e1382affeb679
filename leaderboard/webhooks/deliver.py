"""deliver_due, keep_delivering: events of the ledger, told to webhooks' targets by the Standard Webhooks specification.

At least once: a process that is killed between the post and its record posts again, with the same id, by which
receivers know what they have had. What happened before a target was configured is not told. Two processes do not post
the same attempt: each is claimed in the ledger first.

Order: an event waits for those before it until they are delivered or have failed three times, which takes a minute or
two; after that it overtakes them. A target that answers 410 is told nothing more; an address that differs
in anything, be it its query, is another target and begins anew.

Not here: `Retry-After` is not looked at, and a secret is changed without an overlap.
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md)
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError
from standardwebhooks import Webhook

from candidates.ledger.deliveries import Delivered, Deliveries, Failed, GivenUp, Gone, LastAttempt, Outcome
from candidates.ledger.events import Event, events_after, newest_positions, positions_before
from candidates.ledger.ledger import Ledger
from leaderboard.webhooks.post import PostFailed, post_over_http
from leaderboard.webhooks.target import WebhookTarget

RETRY_DELAYS_S = (5.0, 30.0, 120.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)
"""After each failed attempt but the last, times 1 to 1.25 by chance."""
MOST_ATTEMPTS = len(RETRY_DELAYS_S) + 1
CLAIM_S = 120.0
"""An attempt that was claimed so long ago and has not ended was lost with its process."""
_ORDERED_ATTEMPTS = 3
_SETTLED_FOR = timedelta(hours=1)
"""A position moves past rows that are as old: a row that another transaction wrote before may appear after."""

Post = Callable[[str, Mapping[str, str], bytes], int]
"""URL, headers and body to the status of the answer; raises PostFailed."""
Permalink = Callable[[Event], str | None]
"""The public address of the page that shows an event; None: there is none."""

_log = logging.getLogger("compiler_agent.webhooks")


class Attempted(NamedTuple):
    event_id: str
    attempt: int
    outcome: Outcome


def utc_now() -> datetime:
    return datetime.now(UTC)


def no_link(event: Event) -> None:
    """Where no public address is configured."""


def deliver_due(
    ledger: Ledger,
    target: WebhookTarget,
    now: Callable[[], datetime] = utc_now,
    post: Post = post_over_http,
    permalink: Permalink = no_link,
    chance: Callable[[], float] = random.random,
) -> tuple[Attempted, ...]:
    """One pass over what is due, oldest first; it ends at the first attempt that fails.

    The first pass for a target only records where it begins. `chance`: 0 to 1. Raises SQLAlchemyError, and
    ValidationError for a ledger of another version.
    """
    deliveries = Deliveries(ledger, target.digest)
    if deliveries.is_gone():
        return ()
    position = deliveries.position(start=newest_positions(ledger))
    events = events_after(ledger, position)
    last_attempts = deliveries.last_attempts(event.id for event in events)
    attempted, unsettled = [], [event for event in events if not _is_settled(last_attempts.get(event.id))]
    for event in tuple(unsettled):
        last = last_attempts.get(event.id)
        if last is not None and _due_at(last) > now():
            if last.attempt >= _ORDERED_ATTEMPTS:
                continue
            break
        done = _attempt(deliveries, target, event, last, now, post, permalink, chance)
        if done is None:
            break
        attempted.append(done)
        if not isinstance(done.outcome, Failed | Gone):
            unsettled.remove(event)
        if not isinstance(done.outcome, Delivered):
            break
    settled = positions_before(unsettled, newest_positions(ledger, before=now() - _SETTLED_FOR))
    if (further := position.at_least(settled)) != position:
        deliveries.advance(further)
    return tuple(attempted)


def _is_settled(last: LastAttempt | None) -> bool:
    return last is not None and isinstance(last.outcome, Delivered | GivenUp)


def _due_at(last: LastAttempt) -> datetime:
    match last.outcome:
        case Failed(retry_at=retry_at):
            return retry_at
        case _:
            return last.claimed_at + timedelta(seconds=CLAIM_S)


def _attempt(
    deliveries: Deliveries,
    target: WebhookTarget,
    event: Event,
    before: LastAttempt | None,
    now: Callable[[], datetime],
    post: Post,
    permalink: Permalink,
    chance: Callable[[], float],
) -> Attempted | None:
    """None: another process makes it."""
    last = 0 if before is None else before.attempt
    if last >= MOST_ATTEMPTS:  # the last one's process was killed
        outcome: Outcome = GivenUp(message="nobody knows how the last attempt ended")
        deliveries.settle(event.id, last, outcome)
        return Attempted(event.id, last, outcome)
    attempt = last + 1
    if not deliveries.claim(event.id, attempt, now()):
        return None
    body = _body(event, permalink(event))
    try:
        status = post(target.url, _headers(target, event, body, now()), body)
        outcome = _judge(status, attempt, now(), chance())
    except PostFailed as failed:
        outcome = _failed(str(failed), attempt, now(), chance())
    deliveries.settle(event.id, attempt, outcome)
    return Attempted(event.id, attempt, outcome)


def _judge(status: int, attempt: int, at: datetime, chance: float) -> Outcome:
    message = f"answered {status}"
    if 200 <= status < 300:
        return Delivered(message=message)
    return Gone(message=message) if status == 410 else _failed(message, attempt, at, chance)


def _failed(message: str, attempt: int, at: datetime, chance: float) -> Failed | GivenUp:
    if attempt >= MOST_ATTEMPTS:
        return GivenUp(message=message)
    delay_s = RETRY_DELAYS_S[attempt - 1] * (1 + chance / 4)
    return Failed(message=message, retry_at=at + timedelta(seconds=delay_s))


def _body(event: Event, url: str | None) -> bytes:
    known = event.circumstances.model_dump(mode="json", exclude_none=True)
    content = {
        "type": event.type.value,
        "timestamp": event.at.isoformat().replace("+00:00", "Z"),
        "data": known if url is None else known | {"url": url},
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _headers(target: WebhookTarget, event: Event, body: bytes, at: datetime) -> dict[str, str]:
    return {
        "content-type": "application/json",
        "user-agent": "compiler-agent",
        "webhook-id": event.id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(target.secret).sign(event.id, at.astimezone(UTC), body.decode()),
    }


async def keep_delivering(
    ledger: Ledger, targets: Sequence[WebhookTarget], permalink: Permalink = no_link, interval_s: float = 5.0
) -> None:
    """Until it is cancelled; a post under way then ends in its thread. Each target has its own loop, so that one which
    does not answer keeps none waiting."""

    async def keep(target: WebhookTarget) -> None:
        while True:
            try:
                attempted = await asyncio.to_thread(deliver_due, ledger, target, permalink=permalink)
            except (SQLAlchemyError, ValueError) as error:
                _log.warning("webhook target %s: %s; trying again", target.digest[:8], error)
                attempted = ()
            for event_id, attempt, outcome in attempted:
                level = logging.INFO if isinstance(outcome, Delivered) else logging.WARNING
                _log.log(level, "webhook %s, attempt %d: %s, %s", event_id, attempt, outcome.outcome, outcome.message)
            await asyncio.sleep(interval_s)

    async with asyncio.TaskGroup() as group:
        for target in targets:
            group.create_task(keep(target))
