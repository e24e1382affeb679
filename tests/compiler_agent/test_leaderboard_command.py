"""`compiler-agent leaderboard` and `wins`: a real server process, and the ranking on the terminal."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from candidates.ledger.ledger import Ledger
from candidates.promotion import Gate, PromotionDecision
from compiler_agent.main import run_command
from compiler_agent.outcome import ExitCode
from tests.candidates.past_searches import REQUEST, attempt, double_task, measurement

TASK = double_task()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    return tmp_path


def win(home, source, speedup):
    ledger = Ledger(f"sqlite:///{home / 'ledger.sqlite'}")
    ledger.open_run(REQUEST, "run-1")
    kernel = attempt(source, measurement(speedup))
    candidate = kernel.proposal.candidate
    ledger.put_task(TASK)
    ledger.put_candidate(candidate)
    ledger.put_attempt("run-1", TASK.id, kernel)
    gate = Gate(name="confirmed", figure=speedup, bound="> 1.03", passed=True)
    ledger.put_promotion("run-1", PromotionDecision(task_id=TASK.id, candidate_id=candidate.id, gates=(gate,)))
    return candidate.id


def fetch(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("stopping", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_it_is_stopped(home, stopping):
    candidate_id = win(home, "kernel", 2.0)
    command = [sys.executable, "-m", "compiler_agent", "leaderboard", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            said = server.stderr.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/", said).group()
            assert candidate_id in fetch(address)
            assert json.loads(fetch(f"{address}api/v1/wins"))["standings"][0]["speedup"] == 2.0
            rebound = urllib.request.Request(address, headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(rebound, timeout=20)
            server.send_signal(stopping)
            assert server.wait(timeout=30) == ExitCode.DONE
            assert server.stderr.read() == ""
        finally:
            server.kill()


def test_says_that_a_port_is_taken(home, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code = run_command(["leaderboard", "--port", str(taken.getsockname()[1])])
    assert code == ExitCode.USER_FAULT
    assert "cannot listen at 127.0.0.1" in capsys.readouterr().err


def test_refuses_a_host_name_that_is_none(home, capsys):
    assert run_command(["leaderboard", "--allowed-host", "http://x/"]) == ExitCode.USER_FAULT
    assert "is no host" in capsys.readouterr().err


def test_tokens_are_made_once_and_end_at_once(home, capsys):
    assert run_command(["leaderboard", "token", "new", "ann", "--json"]) == ExitCode.DONE
    token = json.loads(capsys.readouterr().out)["token"]
    assert token not in (home / "keys" / "leaderboard.json").read_text()
    assert run_command(["leaderboard", "token", "new", "ann"]) == ExitCode.USER_FAULT
    assert run_command(["leaderboard", "token", "list", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == ["ann"]
    assert run_command(["leaderboard", "token", "remove", "ann"]) == ExitCode.DONE
    assert run_command(["leaderboard", "token", "remove", "ann"]) == ExitCode.USER_FAULT


def test_wins_are_ranked_as_on_the_page(home, capsys):
    ids = [win(home, f"kernel {number}", 1.5 + number) for number in range(3)]
    assert run_command(["wins", "--sort", "speedup", "--json"]) == ExitCode.DONE
    assert [each["candidate_id"] for each in json.loads(capsys.readouterr().out)] == ids[::-1]
    assert run_command(["wins", "--agent", "llm"]) == ExitCode.NOT_ACHIEVED
    assert run_command(["wins", "--state", "best"]) == ExitCode.USER_FAULT
    assert "no state best" in capsys.readouterr().err


def test_the_terminal_shows_the_same_figures(home, capsys):
    win(home, "kernel", 2.0)
    assert run_command(["wins"]) == ExitCode.DONE
    shown = capsys.readouterr().out
    assert "2.00×" in shown
    assert "won" in shown
