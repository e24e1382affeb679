"""The llm agent on the real MeteredModel: what it reports is what was billed, and no round is paid for twice."""

from pathlib import Path

import pytest
from scripted_search import TASK, budget, collaborators, right, says

from candidates.agent import Proposals, Stop
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.spending import Caps
from candidates.transcript import Transcript
from compiler_agent.agents.llm.agent import LlmAgent
from compiler_agent.agents.llm.collaborators import Collaborators
from compiler_agent.models.completion import Completion, ModelRequest
from tests.compiler_agent.models.spender import PRICE, open_spender
from tests.model_server.behaviour import Say
from tests.model_server.server import ModelServer

PRICES = {
    "input": PRICE.input,
    "cache_read": PRICE.cache_read,
    "cache_write": PRICE.cache_write,
    "output": PRICE.output,
}


@pytest.fixture
def server():
    server = ModelServer()
    yield server
    server.close()


def open_agent(server: ModelServer, folder: Path) -> LlmAgent:
    known = collaborators({})
    blobs = BlobStore(folder / "blobs")
    fields = {name: getattr(known, name) for name in Collaborators.__dataclass_fields__}
    open_model = {"m0": open_spender(server.url, f"sqlite:///{folder / 'ledger.sqlite'}", folder)}.__getitem__
    return LlmAgent(Collaborators(**(fields | {"open_model": open_model, "store": blobs.put})))


def test_a_round_is_billed_once_and_its_transcripts_lead_to_what_was_said(server: ModelServer, tmp_path: Path) -> None:
    calls = ModelCalls(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    for account in budget().accounts:
        calls.open_account(account, Caps(usd=5.0))
    server.will(*(Say(text=says(right(n), f"change {n}"), output_tokens=300) for n in range(4)))
    first = open_agent(server, tmp_path).propose(TASK, (), budget())
    assert isinstance(first, Proposals)
    billed = server.usd(**PRICES)
    assert sum(each.cost_usd for each in first.proposals) == pytest.approx(billed, abs=1e-8)
    # A process that died after the calls, before its proposals were recorded.
    assert open_agent(server, tmp_path).propose(TASK, (), budget()) == first
    assert server.usd(**PRICES) == billed
    blobs = BlobStore(tmp_path / "blobs")
    for made in first.proposals:
        assert made.transcript is not None
        (turn,) = Transcript.model_validate_json(blobs.get(made.transcript)).turns
        request = ModelRequest.model_validate_json(blobs.get(turn.request))
        answer = Completion.model_validate_json(blobs.get(turn.answer))
        assert "Write the kernel." in request.messages[0].text
        assert made.candidate.source in answer.outcome.text
        (tried,) = calls.tries(turn.call_id)
        assert tried.call.request == turn.request


def test_a_spent_account_stops_the_search_and_says_so(server: ModelServer, tmp_path: Path) -> None:
    calls = ModelCalls(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    run, op = budget().accounts
    calls.open_account(run, Caps(usd=5.0))
    calls.open_account(op, Caps(usd=0.01))
    ended = open_agent(server, tmp_path).propose(TASK, (), budget())
    assert isinstance(ended, Stop)
    assert ended.reason == "budget"
    assert ended.message.startswith(f"{op} has used or reserved $0.00 of $0.01")
    assert server.usd(**PRICES) == 0


def test_a_cap_with_room_for_one_call_at_a_time_is_not_spent(server: ModelServer, tmp_path: Path) -> None:
    calls = ModelCalls(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    run, op = budget().accounts
    calls.open_account(run, Caps(usd=5.0))
    calls.open_account(op, Caps(usd=0.6))
    server.default = lambda body: Say(text=says(right(len(server.requests))), output_tokens=300, first_after_s=0.2)
    first = open_agent(server, tmp_path).propose(TASK, (), budget())
    assert isinstance(first, Proposals)
    assert len(first.proposals) == len(server.billed) == 4
    (stop,) = calls.stops(op)
    assert stop.asked < stop.cap < 4 * stop.asked
    assert open_agent(server, tmp_path).propose(TASK, (), budget()) == first
    assert len(server.billed) == 4
    assert calls.balance(op).used.usd == pytest.approx(server.usd(**PRICES), abs=1e-8)
