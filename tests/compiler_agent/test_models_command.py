"""`compiler-agent models check`: exit codes, the document, and that no key is ever shown."""

import json

import pytest

from compiler_agent.main import run_command
from tests.model_server.behaviour import Fail, Say
from tests.model_server.server import KEY, MODEL, ModelServer


@pytest.fixture
def server():
    server = ModelServer(is_vendors=False)
    yield server
    server.close()


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    for name in ("API_KEY", "BASE_URL", "MODEL"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))

    def run(*arguments, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code = run_command(["models", "check", *arguments])
        printed = capsys.readouterr()
        assert KEY not in printed.out + printed.err
        return code, printed.out, printed.err

    return run


def _environment(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": MODEL}


def test_an_endpoint_that_answers_is_done(check, server, tmp_path):
    (tmp_path / "models.toml").write_text(
        f'[claude]\napi = "anthropic-messages"\nmodel = "{MODEL}"\nbase_url = "{server.url}"\nkey_env = "MY_KEY"\n'
        "usd_per_million_tokens = { input = 3.0, output = 15.0 }\n"
    )
    code, out, _ = check("--json", **_environment(server), MY_KEY=KEY)
    assert code == 0
    claude, openai = json.loads(out)["endpoints"]
    assert (claude["name"], claude["outcome"], claude["message"]) == ("claude", "reply", "yes, of course")
    assert claude["usd"] == pytest.approx(server.usd(input=3, cache_read=3, cache_write=3, output=15) / 2, rel=0.5)
    assert (openai["name"], openai["api"], openai["usd"]) == ("openai", "openai-chat", None)
    assert len(server.billed) == 2
    code, out, _ = check("--endpoint", "claude")
    assert code == 0
    assert "$3/$15" in out
    assert len(server.billed) == 3


def test_a_model_that_thinks_past_the_limit_answers_too(check, server):
    server.will(Say(text="", stop="max_tokens"))
    assert check(**_environment(server))[0] == 0


def test_a_model_that_refuses_is_not_what_was_asked(check, server):
    server.will(Say(text="I will not.", stop="refusal"))
    code, out, _ = check(**_environment(server))
    assert code == 1
    assert "I will not." in out


def test_a_wrong_key_is_the_users_to_mend(check, server):
    environment = _environment(server) | {"OPENAI_API_KEY": "sk-another-0123456789abcdef"}
    code, out, _ = check("--json", **environment)
    assert code == 2
    (endpoint,) = json.loads(out)["endpoints"]
    assert endpoint["outcome"] == "rejected"
    assert "check the key" in endpoint["message"]
    assert "0123456789abcdef" not in out


def test_an_endpoint_that_is_not_there_is_the_users_to_mend(check, server):
    server.will(*[Fail(status=404, kind="model_not_found", message="no such model")] * 6)
    code, out, _ = check(**_environment(server))
    assert code == 2
    assert "check the model's name" in out


def test_no_endpoint_says_how_to_configure_one(check):
    code, out, err = check("--json")
    assert (code, out) == (2, "")
    assert "set OPENAI_API_KEY and OPENAI_MODEL" in err


def test_a_key_that_is_missing_is_named(check, server, tmp_path):
    (tmp_path / "models.toml").write_text(f'[a]\napi = "openai-chat"\nmodel = "{MODEL}"\nkey_env = "ABSENT_KEY"\n')
    code, out, _ = check()
    assert code == 2
    assert "set ABSENT_KEY" in out
