"""`compiler-agent task report` and `memory list`: what they print, and how they end."""

import json
from pathlib import Path

import pytest

from candidates.candidate import Candidate
from candidates.ledger.cards import Cards
from candidates.ledger.ledger import Ledger
from candidates.ledger.reports import RecordedReports
from candidates.memory import lessons
from compiler_agent.main import run_command
from tests.candidates.past_searches import attempt, double_task, measurement

TASK = double_task()
SOURCE = (
    '#include <cstdint>\nextern "C" void kernel(const float* x, float* y, int64_t rows) {\n'
    "for (int64_t i = 0; i < rows * 8; ++i) y[i] = x[i] * 2;\n}\n"
)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.put_task(TASK)
    return ledger


def test_reports_on_a_file_and_on_a_candidate_of_the_ledger(ledger, tmp_path, capsys) -> None:
    (tmp_path / "kernel.cpp").write_text(SOURCE)
    candidate = Candidate(language="cpp", source=SOURCE)
    ledger.put_candidate(candidate)
    printed = []
    for name in (str(tmp_path / "kernel.cpp"), candidate.id[:8]):
        assert run_command(["task", "report", TASK.id[:8], name]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "loop vectorized" in printed[0]
    assert run_command(["task", "report", TASK.id[:8], candidate.id, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["failure"] == ""
    assert document["remarks"][0]["line"] == 3
    assert RecordedReports(ledger).of(TASK.id, candidate.id).model_dump(mode="json") == document


def test_a_kernel_that_does_not_build_is_not_what_was_asked(ledger, tmp_path, capsys) -> None:
    (tmp_path / "kernel.cpp").write_text(SOURCE.replace("x[i]", "\x1b[2J[/bold]missing"))
    assert run_command(["task", "report", TASK.id[:8], str(tmp_path / "kernel.cpp")]) == 1
    out = capsys.readouterr().out
    assert "does not build" in out
    assert "\x1b" not in out


def test_a_candidate_that_is_nowhere_is_the_users_to_mend(ledger, capsys) -> None:
    for name, said in (("3f2a", "candidate 3f2a is not in the ledger, and there is no file"), ("no.cpp", "no.cpp")):
        assert run_command(["task", "report", TASK.id[:8], name]) == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_memory_lists_its_cards(ledger, capsys) -> None:
    assert run_command(["memory", "list"]) == 0
    assert capsys.readouterr().out == "no cards yet\n"
    parent = attempt("parent", measurement(1.0))
    child = attempt("child", measurement(2.0), parents=(parent,), note="unrolled \x1b[2J by four")
    cards = lessons(TASK, (parent, child))
    Cards(ledger).put(cards)
    assert run_command(["memory", "list"]) == 0
    out = capsys.readouterr().out
    assert "Double: faster by 2.00x" in out
    assert "\x1b" not in out
    assert run_command(["memory", "list", "--json"]) == 0
    assert [card["id"] for card in json.loads(capsys.readouterr().out)] == [card.id for card in cards]
