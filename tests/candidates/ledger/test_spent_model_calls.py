import pytest

from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.model_calls import Answered, Begun, CallRunning, ModelCalls
from candidates.spending import (
    MOST_CALLS,
    MOST_SECONDS,
    MOST_TOKENS,
    MOST_USD,
    Amount,
    BudgetStop,
    CallOutcome,
    Caps,
    ModelCall,
    ModelCallEnd,
    RecordedCall,
)
from workflows.retries import USER_FAULTS


@pytest.fixture
def calls(ledger_url):
    calls = ModelCalls(Ledger(ledger_url))
    calls.open_account("run", Caps(usd=1e-6))
    calls.open_account("run/op", Caps(calls=3))
    return calls


def _call(call_id: str = "run/op/1", nano_usd: int = 600) -> ModelCall:
    reserved = Amount(nano_usd=nano_usd, tokens=10, milliseconds=5)
    return ModelCall(
        call_id=call_id, endpoint="e", model="m", accounts=("run", "run/op"), reserved=reserved, request="0" * 64
    )


def _end(nano_usd: int, answer: str | None = "1" * 64) -> ModelCallEnd:
    spent = Amount(nano_usd=nano_usd, tokens=4, milliseconds=3)
    return ModelCallEnd(outcome=CallOutcome.REPLY, spent=spent, is_spend_known=True, answer=answer)


def test_what_is_reserved_counts_until_it_is_settled(calls):
    call = _call()
    assert calls.begin(call) == Begun(1)
    assert calls.balance("run").used == call.reserved
    assert isinstance(calls.begin(_call("run/op/2")), BudgetStop)
    assert calls.settle(RecordedCall(try_number=1, call=call, end=None), _end(100))
    assert calls.balance("run").used == calls.balance("run/op").used == _end(100).spent
    assert calls.begin(_call("run/op/2")) == Begun(1)


def test_a_refused_call_takes_nothing_from_any_account(calls):
    calls.open_account("a", Caps())  # comes before the account that refuses
    call = _call(nano_usd=1001).model_copy(update={"accounts": ("run", "a")})
    stop = calls.begin(call)
    assert stop == BudgetStop(account="run", limit="nano_usd", cap=1000, used=0, asked=1001)
    assert calls.balance("a").used.calls == 0
    assert calls.tries(call.call_id) == ()
    assert calls.stops("run") == (stop,)
    assert str(stop) == "run has used or reserved $0.00 of $0.000001, and the next call may take $0.000001001"


def test_a_stop_says_dollars_as_dollars_and_counts_as_counts():
    stop = BudgetStop(account="run", limit="nano_usd", cap=5_000_000_000, used=4_999_990_000, asked=90_000_000)
    assert str(stop) == "run has used or reserved $4.99999 of $5.00, and the next call may take $0.09"
    stop = BudgetStop(account="run", limit="calls", cap=4, used=4, asked=1)
    assert str(stop) == "run has used or reserved 4 of 4 calls, and the next call may take 1"


def test_a_try_is_settled_once(calls):
    tried = RecordedCall(try_number=1, call=_call(), end=None)
    calls.begin(tried.call)
    assert calls.settle(tried, _end(100))
    assert not calls.settle(tried, _end(500))
    assert calls.balance("run").used.nano_usd == 100


def test_an_answered_call_gives_its_answer(calls):
    tried = RecordedCall(try_number=1, call=_call(), end=None)
    calls.begin(tried.call)
    calls.settle(tried, _end(100))
    assert calls.begin(tried.call) == Answered(_end(100), "1" * 64, tried.call.request)


def test_a_late_end_of_a_lost_try_changes_nothing(calls):
    first = RecordedCall(try_number=1, call=_call(nano_usd=300), end=None)
    calls.begin(first.call)
    assert calls.begin(first.call) == Begun(2)
    assert not calls.settle(first, _end(100))
    assert calls.balance("run").used.nano_usd == 600
    assert [tried.end and tried.end.outcome for tried in calls.tries("run/op/1")] == [CallOutcome.LOST, None]


class LateCalls(ModelCalls):
    """A worker that reads the tries of a call, and then another one begins it."""

    def __init__(self, ledger, other):
        super().__init__(ledger)
        self._other = other

    def tries(self, call_id):
        found = super().tries(call_id)
        self._other.begin(_call(call_id, nano_usd=100))
        return found


def test_of_two_that_begin_a_call_at_once_one_is_told_to_wait(calls, ledger_url):
    late = LateCalls(Ledger(ledger_url), calls)
    with pytest.raises(CallRunning, match="run/op/1 is being made by another worker"):
        late.begin(_call(nano_usd=100))
    assert CallRunning.__name__ not in USER_FAULTS
    assert calls.balance("run").used.calls == 1


def test_an_account_keeps_its_caps(calls):
    calls.open_account("run", Caps(usd=100.0))
    assert calls.balance("run").caps == Caps(usd=1e-6)
    assert calls.balance("run").usd_left == 1e-6


def test_the_largest_caps_and_calls_fit_the_ledger(calls):
    most = Caps(usd=MOST_USD, tokens=MOST_TOKENS, seconds=MOST_SECONDS, calls=MOST_CALLS)
    calls.open_account("rich", most)
    assert calls.balance("rich").caps == most
    assert calls.begin(_call(nano_usd=10**17).model_copy(update={"accounts": ("rich",)})) == Begun(1)


def test_an_account_that_was_never_opened_is_heard(calls):
    with pytest.raises(LedgerError, match="no spending account b: open it"):
        calls.begin(_call().model_copy(update={"accounts": ("run", "b")}))
    assert calls.balance("run").used.calls == 0
