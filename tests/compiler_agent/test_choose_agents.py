"""Agents, models and budgets as commands are told them: what is chosen, and what is refused before anything runs."""

import sqlite3

import pytest

from candidates.spending import MOST_USD, Caps, ModelBudget
from compiler_agent.choose_agents import choose_agents
from compiler_agent.main import run_command
from compiler_agent.outcome import UserFault
from compiler_agent.settings import read_settings

ENDPOINTS = """
[priced]
api = "anthropic-messages"
model = "mine"
base_url = "http://127.0.0.1:9"
usd_per_million_tokens = { input = 3.0, output = 15.0 }

[unpriced]
api = "openai-chat"
model = "theirs"
base_url = "http://127.0.0.1:9/v1"

[locked]
api = "openai-chat"
model = "theirs"
key_env = "ABSENT_KEY"
"""


@pytest.fixture
def settings(tmp_path, monkeypatch):
    for name in ("API_KEY", "BASE_URL", "MODEL"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    return read_settings()


@pytest.fixture
def configured(settings):
    (settings.home / "models.toml").write_text(ENDPOINTS)
    return settings


def test_search_alone_asks_no_model(settings):
    chosen = choose_agents(settings, (), ())
    assert chosen.agents == ("search",)
    assert chosen.models == ModelBudget()


def test_agents_keep_their_order_and_an_op_may_spend_what_the_run_may(configured):
    chosen = choose_agents(configured, ("search", "llm"), ("priced",), usd=5.0, calls=9)
    assert chosen.agents == ("search", "llm")
    assert chosen.models == ModelBudget(endpoints=("priced",), run=Caps(usd=5.0, calls=9), op=Caps(usd=5.0, calls=9))


def test_an_op_may_be_given_less(configured):
    models = choose_agents(configured, ("llm",), ("priced", "unpriced"), usd=5.0, usd_per_op=0.5, tokens=100).models
    assert models.endpoints == ("priced", "unpriced")
    assert models.run == Caps(usd=5.0, tokens=100)
    assert models.op == Caps(usd=0.5, tokens=100)


@pytest.mark.parametrize(
    ("agents", "endpoints", "budget", "words"),
    [
        (("llm",), ("priced",), {}, "say what priced may cost"),
        (("llm",), ("priced",), {"calls": 5}, "say what priced may cost"),
        (("llm",), ("unpriced",), {"usd": 5.0}, "price of theirs .* is unknown"),
        (("llm",), ("priced", "unpriced"), {"usd": 5.0}, "price of theirs .* is unknown"),
        (("llm",), ("locked",), {"usd": 5.0}, "set ABSENT_KEY"),
        (("llm",), ("none",), {"usd": 5.0}, "no endpoint none: there are priced, unpriced, locked"),
        (("llm",), (), {"usd": 5.0}, "name one of the endpoints"),
        (("llm",), ("priced", "priced"), {"usd": 5.0}, "named twice"),
        (("llm",), ("priced",), {"usd": float("nan")}, "bounds nothing"),
        (("llm",), ("priced",), {"usd": 1e300}, "bounds nothing: give at most 1000000000 dollars"),
        (("llm",), ("priced",), {"usd": 5.0, "tokens": 10**23 - 1}, "bounds nothing"),
        (("llm",), ("priced",), {"usd": 5.0, "calls": 10**23}, "bounds nothing"),
        (("llm",), ("priced",), {"usd": 5.0, "device_usd_per_hour": float("inf")}, "pays back in 7.0 days is none"),
        (("search", "search"), (), {}, "named twice"),
        (("oracle",), (), {}, "no agent oracle: there are search, llm"),
        (("search",), ("priced",), {}, "add --agent llm"),
        ((), (), {"usd": 5.0}, "add --agent llm"),
        ((), (), {"device_usd_per_hour": 2.0}, "add --agent llm"),
    ],
)
def test_what_cannot_work_is_refused(configured, agents, endpoints, budget, words):
    with pytest.raises(UserFault, match=words):
        choose_agents(configured, agents, endpoints, **budget)


@pytest.mark.parametrize("command", [("run",), ("tune", "3f2a")])
def test_llm_without_an_endpoint_is_refused_before_anything_runs(settings, capsys, command):
    assert run_command((*command, "--agent", "llm", "--budget-usd", "5")) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "set OPENAI_API_KEY and OPENAI_MODEL" in printed.err
    assert not (settings.home / "ledger.sqlite").exists()


def test_llm_without_a_bound_is_refused_before_a_run_is_recorded(configured, capsys):
    assert run_command(("run", "--agent", "llm", "--model-name", "priced")) == 2
    assert "--budget-usd" in capsys.readouterr().err
    with sqlite3.connect(configured.home / "ledger.sqlite") as connection:
        assert connection.execute("select count(*) from runs").fetchone() == (0,)


@pytest.mark.parametrize("budget", [("--budget-tokens", "9" * 23), ("--budget-usd", "1e300")])
def test_a_budget_past_all_bounds_is_refused_before_anything_runs(configured, capsys, budget):
    assert run_command(("run", "--agent", "llm", "--model-name", "priced", *budget)) == 2
    assert "bounds nothing" in capsys.readouterr().err
    assert not (configured.home / "ledger.sqlite").exists()


def test_a_price_past_all_bounds_is_refused_before_anything_runs(configured, capsys):
    (configured.home / "models.toml").write_text(ENDPOINTS.replace("15.0", "1e300"))
    assert run_command(("run", "--agent", "llm", "--model-name", "priced", "--budget-usd", "5")) == 2
    assert "usd_per_million_tokens.output" in capsys.readouterr().err
    assert not (configured.home / "ledger.sqlite").exists()


def test_tune_of_an_unknown_task_is_refused(settings, capsys):
    assert run_command(("tune", "zz")) == 2
    assert "compiler-agent task list" in " ".join(capsys.readouterr().err.split())


def test_no_op_may_cost_more_than_it_can_save():
    """A device of 2 $ an hour, 10 % of whose time could be given back, for 5 days: 24 $."""
    run, op = Caps(usd=100.0), Caps(usd=50.0, calls=9)
    models = ModelBudget(endpoints=("priced",), run=run, op=op, device_usd_per_hour=2.0, payback_days=5.0)
    assert models.for_op(0.1).op.usd == pytest.approx(24.0)
    assert models.for_op(0.1).op.calls == 9
    assert models.for_op(0.1).run == run
    assert models.for_op(0.9).op.usd == 50.0
    assert models.model_copy(update={"op": Caps(calls=9)}).for_op(0.1).op.usd == pytest.approx(24.0)
    dear = models.model_copy(update={"device_usd_per_hour": 1e300, "payback_days": 1e300})
    assert dear.for_op(0.1).op.usd == 50.0
    assert dear.for_op(0.0).op.usd == 0.0
    assert dear.model_copy(update={"op": Caps()}).for_op(0.1).op.usd == MOST_USD
    assert models.model_copy(update={"device_usd_per_hour": None}).for_op(0.1).op == op
