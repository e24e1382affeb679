"""Searches that pay, on a real Temporal server and ledger, against the model server's own count."""

import asyncio
import dataclasses
import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.run import TuneReport
from candidates.spending import CallOutcome, Caps, ModelBudget, RecordedCall, Usage, op_account
from tests.compiler_agent.models.spender import PRICE
from tests.model_server.server import ModelServer
from tests.workflows.paid_search import (
    RUN,
    SAMPLES,
    begin_search,
    open_namespace,
    place_on,
    serving,
    start_worker,
    task_named,
    write_reply,
)
from workflows import queues
from workflows.kernel_search import KernelSearch
from workflows.tune_task import TuneTask

pytestmark = pytest.mark.slow  # every kill point is a search of its own

PRICES = {"input": PRICE.input, "cache_read": PRICE.cache_read, "cache_write": PRICE.cache_write,
          "output": PRICE.output}  # fmt: skip

MOMENTS = ("before_send", "while_waiting", "after_answer", "after_propose", "build", "evaluate", "settle")
UNDISTURBED = ""
PATIENCE_S = 120.0
MODELS = ModelBudget(endpoints=("test",), run=Caps(usd=5.0), op=Caps(usd=4.0))


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What one search left behind."""

    server: ModelServer
    ledger: Ledger
    calls: ModelCalls
    task_id: str
    answered_before_death: tuple[RecordedCall, ...]

    @property
    def report(self) -> TuneReport:
        report = self.ledger.report(RUN)
        assert isinstance(report, TuneReport)
        return report

    def facts(self) -> list[tuple[str, str, float | None]]:
        return [
            (
                attempt.proposal.candidate.id,
                getattr(attempt.verdict, "reason", attempt.verdict.outcome),
                attempt.measurement and attempt.measurement.traffic_weighted_speedup,
            )
            for attempt in self.ledger.attempts(RUN, self.task_id)
        ]


async def _until(claim: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


def _answered(calls: ModelCalls) -> tuple[RecordedCall, ...]:
    return tuple(one for one in calls.calls("") if one.end is not None and one.end.answer is not None)


async def _search(address: str, home: Path, moment: str) -> Searched:
    """One search whose worker dies at the moment, and is replaced."""
    server = ModelServer()
    held, arrivals = threading.Event(), itertools.count()

    def reply(body):
        if next(arrivals) == 0 and moment == "while_waiting":
            assert held.wait(PATIENCE_S)
        return write_reply(body)

    server.default = reply
    place = place_on(address, server, home, die=moment)
    client = await open_namespace(address, place.namespace)
    search = begin_search(place, task_named("double"), MODELS)
    ledger = Ledger(place.ledger_url)
    calls = ModelCalls(ledger)
    handle = await client.start_workflow(TuneTask.run, search, id=RUN, task_queue=queues.CONTROL)
    answered: tuple[RecordedCall, ...] = ()
    if moment:
        worker = await start_worker(place)
        if moment == "while_waiting":
            await _until(lambda: len(_answered(calls)) == SAMPLES - 1, "the other samples are not answered")
            worker.kill()
        assert await asyncio.wait_for(worker.wait(), PATIENCE_S) == -9
        held.set()
        answered = _answered(calls)
    worker = await start_worker(dataclasses.replace(place, die=UNDISTURBED))
    try:
        await asyncio.wait_for(handle.result(), PATIENCE_S)
    finally:
        worker.kill()
        await worker.wait()
        server.close()
    return Searched(server=server, ledger=ledger, calls=calls, task_id=search.task_id, answered_before_death=answered)


@pytest.fixture(scope="module")
def searched(server_address, tmp_path_factory) -> dict[str, Searched]:
    """By moment of death. Side by side: it takes the server 20 s to notice a death."""
    home = tmp_path_factory.mktemp("killed")

    async def search_all():
        moments = (UNDISTURBED, *MOMENTS)
        done = await asyncio.gather(*(_search(server_address, home / f"home-{each}", each) for each in moments))
        return dict(zip(moments, done, strict=True))

    return asyncio.run(search_all())


def _call_ids(one: Searched) -> set[str]:
    return {each.call.call_id for each in one.calls.calls("")}


def _bill(usage) -> tuple[int, ...]:
    return (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)


def _tokens(usage: Usage) -> int:
    return sum(_bill(usage))


def test_an_undisturbed_search_costs_what_the_server_billed(searched):
    one = searched[UNDISTURBED]
    assert one.report.decision == "won"
    assert one.report.stop_reason.startswith("no_progress: 3 rounds of double gained less")
    assert one.report.spend_usd == pytest.approx(one.server.usd(**PRICES), abs=1e-8)
    assert one.report.spend_tokens == sum(_tokens(bill) for bill in one.server.billed)
    assert len(one.server.billed) == len(one.calls.calls("")) > SAMPLES


@pytest.mark.parametrize("moment", MOMENTS)
def test_no_paid_call_repeated_after_kill(searched, moment):
    one = searched[moment]
    recorded = one.calls.calls("")
    answered = _answered(one.calls)
    lost = [each for each in recorded if each not in answered]
    # Each call is answered once, and one that was answered before the death is not made again.
    assert len({each.call.call_id for each in answered}) == len(answered)
    assert _call_ids(one) == _call_ids(searched[UNDISTURBED])
    for before in one.answered_before_death:
        assert one.calls.tries(before.call.call_id)[-1] == before
    if moment in ("after_propose", "build", "evaluate", "settle"):
        assert len(one.answered_before_death) >= SAMPLES
        assert lost == []
    else:
        assert 1 <= len(lost) <= SAMPLES
    if moment == "while_waiting":
        assert len(one.answered_before_death) == SAMPLES - 1
        assert len(lost) == 1
    # What was answered is settled at what the server billed for it, to the token; what was lost at its reservation.
    assert {each.end.outcome for each in lost} <= {CallOutcome.LOST}
    billed = Counter(_bill(bill) for bill in one.server.billed)
    settled = Counter(_bill(each.end.usage) for each in answered)
    assert settled <= billed
    assert (billed - settled).total() <= len(lost)
    used = one.calls.balance(RUN).used
    tokens = sum(_tokens(each.end.usage) for each in answered) + sum(each.call.reserved.tokens for each in lost)
    assert used.tokens == one.report.spend_tokens == tokens >= sum(_tokens(bill) for bill in one.server.billed)
    assert one.report.spend_usd == used.usd >= one.server.usd(**PRICES) - 1e-9
    assert used == one.calls.balance(op_account(RUN, one.task_id)).used


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_search_ends_as_one_that_was_not(searched, moment):
    one, undisturbed = searched[moment], searched[UNDISTURBED]
    assert one.facts() == undisturbed.facts()
    assert one.ledger.search_ends(RUN) == undisturbed.ledger.search_ends(RUN)


def test_spend_never_exceeds_cap(server_address, tmp_path, ledger_url):
    """Fifty searches side by side share five dollars."""
    server = ModelServer()
    server.default = lambda body: write_reply(body, output_tokens=3000)
    place = place_on(server_address, server, tmp_path, ledger_url=ledger_url)

    async def search_all():
        client = await open_namespace(server_address, place.namespace)
        searches = [begin_search(place, task_named(f"op{number}"), MODELS) for number in range(50)]
        async with serving(client, place):
            await asyncio.gather(*(
                client.execute_workflow(KernelSearch.run, each, id=each.task_id, task_queue=queues.CONTROL)
                for each in searches
            ))  # fmt: skip

    asyncio.run(search_all())
    server.close()
    ledger = Ledger(place.ledger_url)
    calls = ModelCalls(ledger)
    used = calls.balance(RUN).used
    assert 4.0 < server.usd(**PRICES) <= used.usd + 1e-9
    assert used.usd <= 5.0
    assert used.nano_usd == sum(one.end.spent.nano_usd for one in calls.calls(""))
    ends = ledger.search_ends(RUN)
    assert len(ends) == 50
    assert all(end.stop_reason for end in ends)
    stopped = [end for end in ends if "run has used or reserved" in end.stop_reason]
    assert stopped
    (stop,) = calls.stops(RUN)
    assert (stop.limit, stop.cap) == ("nano_usd", 5_000_000_000)


def test_same_script_same_ledger(server_address, tmp_path):
    """A script that leads to a stop by the op's budget."""

    async def replay(home: Path) -> Searched:
        server = ModelServer()
        server.default = write_reply
        place = place_on(server_address, server, home)
        client = await open_namespace(server_address, place.namespace)
        search = begin_search(place, task_named("double"), MODELS.model_copy(update={"op": Caps(calls=SAMPLES)}))
        async with serving(client, place):
            await client.execute_workflow(TuneTask.run, search, id=RUN, task_queue=queues.CONTROL)
        server.close()
        ledger = Ledger(place.ledger_url)
        return Searched(
            server=server,
            ledger=ledger,
            calls=ModelCalls(ledger),
            task_id=search.task_id,
            answered_before_death=(),
        )

    async def replay_twice():
        return await replay(tmp_path / "first"), await replay(tmp_path / "second")

    first, second = asyncio.run(replay_twice())
    assert first.facts() == second.facts()
    assert len(first.facts()) == SAMPLES
    assert first.ledger.search_ends(RUN) == second.ledger.search_ends(RUN)
    assert f"has used or reserved {SAMPLES} of {SAMPLES} calls" in first.report.stop_reason
    assert _call_ids(first) == _call_ids(second)
    sent = [sorted(str(request["messages"]) for request in one.server.requests) for one in (first, second)]
    assert sent[0] == sent[1]
