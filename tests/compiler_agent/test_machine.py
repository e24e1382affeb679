"""What `doctor` says of language models and their keys."""

import pytest

from compiler_agent.machine import examine_machine
from compiler_agent.settings import read_settings

KEY = "sk-test-0123456789abcdefghij"


@pytest.fixture
def models(tmp_path, monkeypatch):
    for name in ("API_KEY", "BASE_URL", "MODEL"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    # Compiler and sandbox are not what is asked about, and take seconds.
    monkeypatch.setenv("PATH", str(tmp_path))

    def examine(content="", **environment):
        (tmp_path / "models.toml").write_text(content)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        findings = [each for each in examine_machine(read_settings()) if "model" in each.name]
        assert not any(each.is_needed or KEY in str(each) for each in findings)
        return {each.name: (each.is_there, each.detail) for each in findings}

    return examine


def test_without_an_endpoint_it_is_said_what_to_set(models):
    is_there, detail = models()["language models"]
    assert not is_there
    assert "set OPENAI_API_KEY and OPENAI_MODEL" in detail
    assert "only the agent llm needs one" in detail


def test_each_endpoint_is_told_with_whether_its_key_is_there(models):
    found = models(
        '[local]\napi = "openai-chat"\nmodel = "qwen"\nbase_url = "http://localhost:8000/v1"\n'
        '[locked]\napi = "openai-chat"\nmodel = "gpt"\nkey_env = "ABSENT_KEY"\n',
        ANTHROPIC_API_KEY=KEY,
        ANTHROPIC_MODEL="claude",
    )
    assert list(found) == ["model local", "model locked", "model anthropic"]
    assert [is_there for is_there, _ in found.values()] == [True, False, True]
    assert "qwen at http://localhost:8000/v1 (openai-chat), without a key" in found["model local"][1]
    assert "set ABSENT_KEY" in found["model locked"][1]
    assert "claude (anthropic-messages), its key is set" in found["model anthropic"][1]


def test_a_file_that_cannot_be_read_is_a_finding(models):
    is_there, detail = models("[broken")["language models"]
    assert not is_there
    assert "models.toml" in detail
