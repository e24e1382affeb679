"""Webhooks, against a real receiver on this machine; time alone is told to them."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import WebhookPositionRow
from candidates.serving_build.builds import ApprovalAction
from leaderboard.webhooks.deliver import MOST_ATTEMPTS, RETRY_DELAYS_S, Attempted, deliver_due, keep_delivering
from leaderboard.webhooks.target import WebhookTarget
from tests.candidates.ledger.told_facts import KERNEL, move, promote, retract
from tests.leaderboard.webhook_receiver import SECRET, Receiver, receiving


class Clock:
    def __init__(self) -> None:
        self.late_s = 0.0

    def __call__(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.late_s)


class Deliverer:
    """Passes for one target; the receiver checks signatures by its own clock, so headers may be five minutes off."""

    def __init__(self, ledger: Ledger, url: str) -> None:
        self.ledger, self.target, self.clock = ledger, WebhookTarget(url=url, secret=SECRET), Clock()

    def __call__(self, *, after_s: float = 0.0, **options) -> list[Attempted]:
        self.clock.late_s += after_s
        return list(deliver_due(self.ledger, self.target, self.clock, chance=lambda: 0.0, **options))


@pytest.fixture
def url_of_ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def ledger(url_of_ledger: str) -> Ledger:
    return Ledger(url_of_ledger)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def deliver(ledger: Ledger, receiver: Receiver) -> Deliverer:
    """Of a target that is configured already."""
    deliver = Deliverer(ledger, receiver.url)
    assert deliver() == []
    return deliver


def approve(ledger: Ledger, *builds: str) -> None:
    for build in builds:
        move(ledger, ApprovalAction.APPROVE, build, None)


def outcomes(attempted: list[Attempted]) -> list[str]:
    return [each.outcome.outcome for each in attempted]


def answering(*statuses: int) -> Callable[..., int]:
    """Without a receiver, and so at any time."""
    left = list(statuses)
    return lambda url, headers, body: left.pop(0) if left else 204


def test_what_happened_before_is_not_told(ledger: Ledger, receiver: Receiver) -> None:
    promote(ledger, "run-1")
    retract(ledger)
    deliver = Deliverer(ledger, receiver.url)
    assert deliver() == []
    assert deliver() == []
    approve(ledger, "b")
    assert outcomes(deliver()) == ["delivered"]
    assert [document["type"] for document in receiver.documents] == ["build.live"]


def test_a_document_says_what_is_known(deliver: Deliverer, receiver: Receiver) -> None:
    promote(deliver.ledger, "run-1")
    deliver(permalink=lambda event: f"https://board.example.org/kernels/{event.circumstances.candidate_id}")
    (document,) = receiver.documents
    assert document["type"] == "kernel.promoted"
    assert document["timestamp"].endswith("Z")
    told = document["data"]
    assert told["url"] == f"https://board.example.org/kernels/{KERNEL.id}"
    assert (told["run_id"], told["speedup"], told["interval"]) == ("run-1", 2.0, [1.9, 2.1])
    assert "reason" not in told


def test_is_tried_again_until_it_is_accepted(deliver: Deliverer, receiver: Receiver) -> None:
    receiver.answers = [500, 302]
    approve(deliver.ledger, "b")
    assert outcomes(deliver()) == ["failed"]
    assert deliver() == []
    assert outcomes(deliver(after_s=RETRY_DELAYS_S[0])) == ["failed"]
    assert deliver(after_s=RETRY_DELAYS_S[0]) == []
    assert outcomes(deliver(after_s=RETRY_DELAYS_S[1])) == ["delivered"]
    assert deliver(after_s=200.0) == []
    assert len(receiver.ids) == 3
    assert len(set(receiver.ids)) == 1
    assert len(receiver.accepted) == 1


def test_a_receiver_that_is_not_there_has_failed(ledger: Ledger) -> None:
    with receiving() as gone:
        pass
    deliver = Deliverer(ledger, gone.url)
    deliver()
    approve(ledger, "b")
    (attempted,) = deliver()
    assert attempted.outcome.message == "no answer (ConnectionRefusedError)"


def test_is_given_up_after_the_last_attempt(deliver: Deliverer) -> None:
    approve(deliver.ledger, "b")
    refusing = answering(*[503] * 20)
    seen = outcomes(deliver(post=refusing))
    for delay_s in RETRY_DELAYS_S:
        assert deliver(after_s=delay_s - 2, post=refusing) == []
        seen += outcomes(deliver(after_s=2, post=refusing))
    assert seen == ["failed"] * (MOST_ATTEMPTS - 1) + ["given_up"]
    assert deliver(after_s=1e7, post=refusing) == []
    approve(deliver.ledger, "c")
    assert outcomes(deliver(post=answering(200))) == ["delivered"]


def test_delays_differ_by_chance(deliver: Deliverer) -> None:
    approve(deliver.ledger, "b")
    (attempted,) = deliver_due(deliver.ledger, deliver.target, deliver.clock, post=answering(503), chance=lambda: 1.0)
    delay_s = (attempted.outcome.retry_at - datetime.now(UTC)).total_seconds()
    assert delay_s == pytest.approx(1.25 * RETRY_DELAYS_S[0], abs=1.0)


def test_a_target_that_is_gone_hears_nothing_more(deliver: Deliverer, receiver: Receiver) -> None:
    receiver.answers = [410]
    approve(deliver.ledger, "b", "c")
    assert outcomes(deliver()) == ["gone"]
    approve(deliver.ledger, "d")
    assert deliver(after_s=1e6) == []
    assert len(receiver.ids) == 1
    again = Deliverer(deliver.ledger, receiver.url + "&again=1")
    assert again() == []
    approve(deliver.ledger, "e")
    assert outcomes(again()) == ["delivered"]


def test_events_come_in_their_order_through_a_short_outage(deliver: Deliverer, receiver: Receiver) -> None:
    receiver.answers = [500]
    approve(deliver.ledger, "b", "c")
    assert outcomes(deliver()) == ["failed"]
    assert deliver() == []
    assert outcomes(deliver(after_s=RETRY_DELAYS_S[0])) == ["delivered", "delivered"]
    assert [document["data"]["build_id"] for document in receiver.documents] == ["b", "b", "c"]


def test_an_event_that_fails_again_and_again_is_overtaken(deliver: Deliverer) -> None:
    def post(url: str, headers: object, body: bytes) -> int:
        return 500 if b'"b"' in body else 200

    approve(deliver.ledger, "b", "c")
    seen = [outcomes(deliver(after_s=after_s, post=post)) for after_s in (0, RETRY_DELAYS_S[0], RETRY_DELAYS_S[1], 0)]
    assert seen == [["failed"], ["failed"], ["failed"], ["delivered"]]
    approve(deliver.ledger, "d")
    assert outcomes(deliver(post=post)) == ["delivered"]
    assert outcomes(deliver(after_s=RETRY_DELAYS_S[2], post=answering())) == ["delivered"]


def test_what_was_posted_by_a_killed_process_is_posted_again_with_its_id(
    deliver: Deliverer, receiver: Receiver, url_of_ledger: str
) -> None:
    approve(deliver.ledger, "b")
    program = f"""
        import os, signal
        from candidates.ledger.ledger import Ledger
        from leaderboard.webhooks.post import post_over_http
        from leaderboard.webhooks.target import WebhookTarget
        from leaderboard.webhooks.deliver import deliver_due

        def post(url, headers, body):
            post_over_http(url, headers, body)
            os.kill(os.getpid(), signal.SIGKILL)

        target = WebhookTarget(url={receiver.url!r}, secret={SECRET!r})
        deliver_due(Ledger({url_of_ledger!r}), target, post=post)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode == -9
    assert len(receiver.accepted) == 1
    assert deliver() == []
    assert outcomes(deliver(after_s=130.0)) == ["delivered"]
    assert deliver(after_s=130.0) == []
    assert len(receiver.accepted) == 2
    assert len(set(receiver.accepted)) == 1


def test_is_given_up_too_where_each_attempt_kills_its_process(deliver: Deliverer) -> None:
    def die(url: str, headers: object, body: bytes) -> int:
        raise KeyboardInterrupt

    approve(deliver.ledger, "b")
    for _ in range(MOST_ATTEMPTS):
        with pytest.raises(KeyboardInterrupt):
            deliver(after_s=130.0, post=die)
    assert outcomes(deliver(after_s=130.0, post=die)) == ["given_up"]
    assert deliver(after_s=130.0, post=die) == []


def test_two_deliverers_tell_an_event_once(ledger: Ledger, receiver: Receiver, url_of_ledger: str) -> None:
    both = [Deliverer(Ledger(url_of_ledger), receiver.url) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda deliver: deliver(), both))
        approve(ledger, *(f"b{number}" for number in range(20)))
        list(pool.map(lambda deliver: [deliver() for _ in range(30)], both))
    assert len(receiver.ids) == len(set(receiver.ids)) == 20


def test_what_was_settled_long_ago_is_not_looked_at_again(deliver: Deliverer, ledger: Ledger) -> None:
    """Nor told, when the position has moved past it."""
    approve(ledger, "b", "c")
    assert len(deliver(post=answering())) == 2
    assert deliver(after_s=2 * 3600.0, post=answering()) == []
    assert _positions(ledger) == [{"approvals": 0}, {"approvals": 2}]
    approve(ledger, "d")
    assert outcomes(deliver(post=answering(500))) == ["failed"]
    assert deliver(after_s=1.0, post=answering()) == []
    assert _positions(ledger)[-1] == {"approvals": 2}


def _positions(ledger: Ledger) -> list[dict[str, int]]:
    with Session(ledger.engine) as session:
        records = session.scalars(select(WebhookPositionRow.record).order_by(WebhookPositionRow.number)).all()
    return [{"approvals": record["approvals"]} for record in records]


def test_goes_on_until_it_is_cancelled(ledger: Ledger, receiver: Receiver) -> None:
    async def run() -> None:
        target = WebhookTarget(url=receiver.url, secret=SECRET)
        task = asyncio.create_task(keep_delivering(ledger, [target], interval_s=0.05))
        async with asyncio.timeout(20):
            while not _positions(ledger):  # what is told before is no news to it
                await asyncio.sleep(0.05)
        approve(ledger, "b")
        async with asyncio.timeout(20):
            while not receiver.accepted:
                await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert len(receiver.accepted) == 1
