"""Spend, against the server's own count: caps under parallel calls, kills, and calls whose bill is unknown."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.spending import BudgetStop, CallOutcome, Caps, Usage
from compiler_agent.models.apis import open_client
from compiler_agent.models.completion import Broken, Completion, ModelRejectedRequest, ModelUnavailable, Reply
from compiler_agent.models.endpoints import ApiName, Endpoint
from compiler_agent.models.metered import MeteredModel, PaidCompletion
from compiler_agent.models.redaction import Redactor
from compiler_agent.outcome import UserFault
from tests.compiler_agent.models.spender import OP, PRICE, RUN, ask, open_spender, spend
from tests.model_server.behaviour import Fail, HangUp, Say
from tests.model_server.server import KEY, MODEL, ModelServer

PRICES = {"input": PRICE.input, "cache_read": PRICE.cache_read, "cache_write": PRICE.cache_write,
          "output": PRICE.output}  # fmt: skip


@pytest.fixture
def server():
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture
def calls(ledger_url):
    calls = ModelCalls(Ledger(ledger_url))
    calls.open_account(RUN, Caps(usd=5.0))
    calls.open_account(OP, Caps())
    return calls


@pytest.fixture
def model(server, ledger_url, tmp_path, calls):
    return open_spender(server.url, ledger_url, tmp_path)


def _start(server: ModelServer, ledger_url: str, home: Path, **order: object) -> subprocess.Popen[str]:
    content = json.dumps({"url": server.url, "ledger": ledger_url, "home": str(home)} | order)
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.compiler_agent.models.spender", content],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdout.readline() == "ready\n"
    return worker


def _go(worker: subprocess.Popen[str]) -> None:
    worker.stdin.write("\n")
    worker.stdin.flush()


def test_spend_never_exceeds_cap(server, ledger_url, tmp_path, calls, model):
    """Fifty threads here and eight in each of three processes, among failures that bill and that do not."""
    chance = random.Random(7)
    odd = (
        Fail(status=529, kind="overloaded_error"), Fail(status=500, kind="api_error"), HangUp(),
        Say(text="void kernel", cut_after_events=4, output_tokens=500), Say(output_tokens=8000), Say(output_tokens=10),
    )  # fmt: skip
    for _ in range(60):
        server.will(chance.choice(odd), Say(output_tokens=chance.randrange(200, 8000)))
    server.default = Say(output_tokens=3000)
    workers = [_start(server, ledger_url, tmp_path, name=f"worker-{n}", threads=8) for n in range(3)]
    for worker in workers:
        _go(worker)
    stops = spend(model, "here", threads=50)
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    billed = server.usd(**PRICES)
    assert len(server.billed) > 40
    used = calls.balance(RUN).used
    assert 2.5 < billed <= used.usd <= 5.0
    assert used.usd > 4.8  # the last to stop has no other reservation in its way
    assert {stop.limit for stop in stops} == {"nano_usd"}
    (stop,) = calls.stops(RUN)
    assert stop.used + stop.asked > stop.cap == 5_000_000_000
    recorded = calls.calls("")
    assert all(one.end is not None for one in recorded)
    assert used.nano_usd == sum(one.end.spent.nano_usd for one in recorded)
    assert used.nano_usd == calls.balance(OP).used.nano_usd


@pytest.mark.parametrize(
    ("ledger_url", "moment"),
    [
        *(("sqlite", moment) for moment in ("before_send", "while_waiting", "after_answer")),
        *((database, moment) for database in ("sqlite", "postgresql") for moment in ("before_settle", "after_settle")),
    ],
    indirect=["ledger_url"],
)
def test_no_paid_call_repeated_after_kill(server, ledger_url, tmp_path, calls, model, moment):
    if moment == "while_waiting":
        server.will(Say(output_tokens=400, piece_after_s=5.0))
    server.default = Say(text="void kernel() {}", output_tokens=400)
    worker = _start(server, ledger_url, tmp_path, call=f"{OP}/1", die=moment)
    _go(worker)
    if moment == "while_waiting":
        assert server.arrivals.acquire(timeout=30)
        worker.kill()
    worker.wait(timeout=60)
    billed_before = len(server.billed)
    answer = model.complete(f"{OP}/1", ask("one"), (RUN, OP))
    assert answer.completion.outcome == Reply(text="void kernel() {}")
    used = calls.balance(RUN).used
    if moment == "after_settle":
        assert answer.was_stored
        assert len(server.billed) == billed_before == 1
        assert used.usd == pytest.approx(server.usd(**PRICES), abs=1e-8)
    else:
        lost, made = calls.tries(f"{OP}/1")
        assert lost.end.outcome is CallOutcome.LOST
        assert lost.end.spent == lost.call.reserved
        assert not answer.was_stored
        assert len(server.billed) == billed_before + 1
        assert used.nano_usd == lost.call.reserved.nano_usd + made.end.spent.nano_usd
        assert used.usd >= server.usd(**PRICES)
    again = model.complete(f"{OP}/1", ask("one"), (RUN, OP))
    assert again.was_stored
    assert again.completion == answer.completion
    assert calls.balance(RUN).used == used


@pytest.mark.parametrize("api", list(ApiName))
def test_what_is_settled_is_what_the_server_billed(server, ledger_url, tmp_path, calls, api):
    server.will(Say(output_tokens=1200), Say(output_tokens=7), Say(text="", output_tokens=3), Say(stop="max_tokens"))
    model = open_spender(server.url, ledger_url, tmp_path, api)
    answers = [model.complete(f"{OP}/{n}", ask(str(n)), (RUN, OP)) for n in range(5)]
    assert sum(answer.usd for answer in answers) == pytest.approx(server.usd(**PRICES), abs=1e-8)
    assert calls.balance(RUN).used.usd == pytest.approx(server.usd(**PRICES), abs=1e-8)
    assert calls.balance(RUN).used.calls == 5
    assert all(answer.is_cost_known for answer in answers)
    usages = [recorded.end.usage for recorded in calls.calls(OP)]
    assert usages == [answer.completion.usage for answer in answers]
    assert usages[0].cache_write_tokens == usages[1].cache_read_tokens > 100


def test_a_call_whose_bill_is_unknown_counts_at_its_reservation(server, calls, model):
    server.will(Say(text="void kernel", cut_after_events=5))
    answer = model.complete(f"{OP}/1", ask("one"), (RUN, OP))
    assert isinstance(answer.completion.outcome, Broken)
    assert not answer.is_cost_known
    (recorded,) = calls.tries(f"{OP}/1")
    assert recorded.end.spent.nano_usd == recorded.call.reserved.nano_usd == calls.balance(RUN).used.nano_usd


def test_a_call_that_was_turned_away_costs_nothing_and_may_be_asked_again(server, calls, model):
    server.will(*[Fail(status=429, kind="rate_limit_error", message=f"busy, {KEY}")] * 4)
    with pytest.raises(ModelUnavailable):
        model.complete(f"{OP}/1", ask("one"), (RUN, OP))
    used = calls.balance(RUN).used
    assert (used.nano_usd, used.tokens, used.calls) == (0, 0, 1)
    assert isinstance(model.complete(f"{OP}/1", ask("one"), (RUN, OP)), PaidCompletion)
    away, made = calls.tries(f"{OP}/1")
    assert away.end.outcome is CallOutcome.UNAVAILABLE
    assert "busy" in away.end.message
    assert KEY not in away.end.message
    assert made.end.outcome is CallOutcome.REPLY


class InterruptedClient:
    def complete(self, request):
        raise KeyboardInterrupt


def test_a_call_that_was_interrupted_counts_at_its_reservation(server, calls, model, tmp_path):
    interrupted = MeteredModel(
        model.endpoint, InterruptedClient(), model.price, calls, BlobStore(tmp_path / "blobs"), Redactor([])
    )
    with pytest.raises(KeyboardInterrupt):
        interrupted.complete(f"{OP}/1", ask("one"), (RUN, OP))
    (recorded,) = calls.tries(f"{OP}/1")
    assert recorded.end.outcome is CallOutcome.CANCELLED
    assert calls.balance(RUN).used == recorded.call.reserved


class FailingClient:
    def __init__(self):
        self.asked = 0

    def complete(self, request):
        self.asked += 1
        raise ValueError(f"half a pair: \ud800, and {KEY}")


def test_a_client_that_fails_in_a_way_of_its_own_has_answered_and_is_not_paid_again(calls, model, tmp_path):
    client, blobs = FailingClient(), BlobStore(tmp_path / "blobs")
    failing = MeteredModel(model.endpoint, client, model.price, calls, blobs, Redactor([KEY]))
    first, again = (failing.complete(f"{OP}/1", ask("one"), (RUN, OP)) for _ in range(2))
    assert first.completion.outcome == Broken(text="", problem="ValueError: half a pair: \ufffd, and [redacted key]")
    assert (again.was_stored, again.completion) == (True, first.completion)
    assert client.asked == 1
    (recorded,) = calls.tries(f"{OP}/1")
    assert recorded.end.outcome is CallOutcome.BROKEN
    assert not first.is_cost_known
    assert calls.balance(RUN).used.nano_usd == recorded.call.reserved.nano_usd


class OvertakenClient:
    """While it waits for its first answer, another worker asks for the same call: `meanwhile`."""

    def __init__(self, meanwhile):
        self._meanwhile = meanwhile
        self.texts = ["first", "second"]

    def complete(self, request):
        text = self.texts.pop(0)
        if text == "first":
            self._meanwhile()
        return Completion(
            outcome=Reply(text=text), usage=Usage(input_tokens=9, output_tokens=9), model="m", seconds=0.1
        )


def test_of_two_answers_to_one_call_both_askers_get_the_one_in_the_ledger(calls, model, tmp_path):
    def overtake():
        others.append(metered.complete(f"{OP}/1", ask("one"), (RUN, OP)))

    others = []
    client, blobs = OvertakenClient(overtake), BlobStore(tmp_path / "blobs")
    metered = MeteredModel(model.endpoint, client, model.price, calls, blobs, Redactor([KEY]))
    answer = metered.complete(f"{OP}/1", ask("one"), (RUN, OP))
    (other,) = others
    assert answer.completion == other.completion
    assert answer.completion.outcome.text == "second"
    assert (answer.was_stored, other.was_stored) == (True, False)
    assert metered.complete(f"{OP}/1", ask("one"), (RUN, OP)) == answer


def test_an_answer_to_a_call_taken_for_lost_costs_its_reservation(calls, model, tmp_path):
    def overtake():
        (tried,) = calls.tries(f"{OP}/1")
        calls.begin(tried.call)

    client, blobs = OvertakenClient(overtake), BlobStore(tmp_path / "blobs")
    metered = MeteredModel(model.endpoint, client, model.price, calls, blobs, Redactor([KEY]))
    answer = metered.complete(f"{OP}/1", ask("one"), (RUN, OP))
    lost, running = calls.tries(f"{OP}/1")
    assert answer.completion.outcome.text == "first"
    assert (answer.usd, answer.is_cost_known) == (lost.end.spent.usd, False)
    assert running.end is None


@pytest.mark.parametrize("api", list(ApiName))
@pytest.mark.parametrize("count", [-5, 1e24, 0])
def test_usage_that_cannot_be_counts_at_the_reservation_once(server, ledger_url, tmp_path, calls, api, count):
    server.default = Say(counts={"output_tokens": count, "completion_tokens": count})
    model = open_spender(server.url, ledger_url, tmp_path, api)
    first, again = (model.complete(f"{OP}/1", ask("one"), (RUN, OP)) for _ in range(2))
    assert not first.is_cost_known
    assert again.was_stored
    assert len(server.billed) == 1
    (recorded,) = calls.tries(f"{OP}/1")
    assert recorded.call.reserved.nano_usd == calls.balance(RUN).used.nano_usd > 0


@pytest.mark.parametrize("api", list(ApiName))
def test_half_a_surrogate_pair_is_no_reason_to_pay_twice(server, ledger_url, tmp_path, calls, api):
    server.default = Say(text="void kernel() {} // \ud800", output_tokens=30)
    model = open_spender(server.url, ledger_url, tmp_path, api)
    first, again = (model.complete(f"{OP}/1", ask("one"), (RUN, OP)) for _ in range(2))
    assert first.completion == again.completion
    assert first.completion.outcome == Reply(text="void kernel() {} // \ufffd")
    assert first.is_cost_known
    assert len(server.billed) == 1


@pytest.mark.parametrize(
    ("caps", "limit"),
    [
        (Caps(usd=0.01), "nano_usd"),
        (Caps(tokens=8000), "tokens"),
        (Caps(seconds=59.0), "milliseconds"),
        (Caps(calls=0), "calls"),
    ],
)
def test_each_cap_of_each_account_stops_a_call_before_it_is_sent(server, calls, model, caps, limit):
    calls.open_account("run-1/op-2", caps)
    stop = model.complete("run-1/op-2/1", ask("one"), (RUN, "run-1/op-2"))
    assert isinstance(stop, BudgetStop)
    assert (stop.account, stop.limit) == ("run-1/op-2", limit)
    assert calls.stops("run-1/op-2") == (stop,)
    assert calls.balance(RUN).used.calls == 0
    assert server.requests == []


def test_requests_and_answers_are_kept_without_keys(server, calls, model, tmp_path):
    server.will(Say(text=f"The key is {KEY}, and the kernel void kernel() {{}}"))
    answer = model.complete(f"{OP}/1", ask(f"Why is {KEY} here?"), (RUN, OP))
    blobs = BlobStore(tmp_path / "blobs")
    stored = Completion.model_validate_json(blobs.get(answer.transcript))
    assert stored == answer.completion
    assert "void kernel() {}" in stored.outcome.text
    (recorded,) = calls.tries(f"{OP}/1")
    assert b"Why is [redacted key] here?" in blobs.get(recorded.call.request)
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()


def test_a_model_without_a_price_needs_a_cap_on_tokens(server, calls, model, tmp_path):
    unpriced = MeteredModel(
        Endpoint(name="new", api=ApiName.ANTHROPIC_MESSAGES, model=MODEL),
        open_client(model.endpoint, KEY, Redactor([KEY])), None, calls, BlobStore(tmp_path / "blobs"), Redactor([KEY]),
    )  # fmt: skip
    with pytest.raises(UserFault, match=r"price of test-model-1 .* is unknown: give usd_per_million_tokens"):
        unpriced.complete(f"{OP}/1", ask("one"), (RUN, OP))
    calls.open_account("run-2", Caps(tokens=20_000))
    answer = unpriced.complete("run-2/1", ask("one"), ("run-2",))
    assert answer.usd is None
    assert calls.balance("run-2").used.tokens == answer.completion.usage.tokens


def test_a_prompt_past_what_is_priced_is_not_sent(server, calls, model):
    model.price = model.price.model_copy(update={"price": PRICE.model_copy(update={"up_to_input_tokens": 1000})})
    with pytest.raises(ModelRejectedRequest, match="known up to 1000"):
        model.complete(f"{OP}/1", ask("word " * 1000), (RUN, OP))
    assert server.requests == []
