"""`compiler-agent pr` by hand, on a local repository and on GitHub."""

import json
import re
import sys

import pytest

from candidates.pull_requests.win import Grouping
from compiler_agent.forge_settings import ForgeName, read_forge_settings, read_token
from compiler_agent.main import run_command
from compiler_agent.outcome import ExitCode, UserFault
from tests.candidates.pull_requests.past_runs import PACKED_LINEAR, Kernel, PastRuns
from tests.forge_server.repository import PeoplesRepository
from tests.forge_server.server import NAME, TOKEN, github_server


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("COMPILER_AGENT_FORGE", "GITHUB_TOKEN", "COMPILER_AGENT_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COMPILER_AGENT_REPOSITORY", str(tmp_path / "kernels"))
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path, home):
    return PeoplesRepository(tmp_path / "kernels")


def test_a_win_is_planned_opened_merged_and_live(home, repository, capsys):
    runs = PastRuns(home)
    build = runs.add("run1", Kernel())
    assert run_command(["pr", "open", "--dry-run", "--json"]) == ExitCode.DONE
    (planned,) = json.loads(capsys.readouterr().out)
    assert planned["kind"] == "planned"
    assert "+extern" in planned["difference"]
    assert repository.branches() == ["main"]
    assert run_command(["pr", "open"]) == ExitCode.DONE
    assert "opened: rmsnorm" in capsys.readouterr().out
    assert run_command(["pr", "list", "--json"]) == ExitCode.DONE
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["event"], listed["number"]) == ("opened", 1)
    repository.merge(planned["branch"])
    assert run_command(["pr", "sync", "--json"]) == ExitCode.DONE
    synced = json.loads(capsys.readouterr().out)
    assert [change["state"] for change in synced["changes"]] == ["merged"]
    assert synced["approval"]["build_id"] == build == runs.builds.current()
    assert run_command(["pr", "sync"]) == ExitCode.DONE
    assert run_command(["pr", "list"]) == ExitCode.DONE
    assert "merged" in capsys.readouterr().out


def test_text_of_others_reaches_no_terminal_as_codes(home, repository, capsys):
    PastRuns(home).add("run1", Kernel(note="\x1b[31m red", changes={"op": "\x1b]0;title\x07op"}))
    assert run_command(["pr", "open", "--dry-run"]) == ExitCode.DONE
    run_command(["pr", "open"])
    run_command(["pr", "list"])
    assert "\x1b" not in capsys.readouterr().out


def test_github_is_asked_with_the_token_of_a_file(home, tmp_path, monkeypatch):
    PastRuns(home).add("run1", Kernel())
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with github_server(tmp_path / "github") as server:
        for name, value in {
            "COMPILER_AGENT_FORGE": "github",
            "COMPILER_AGENT_REPOSITORY": NAME,
            "COMPILER_AGENT_FORGE_URL": server.api_url,
            "COMPILER_AGENT_TOKEN_FILE": str(tmp_path / "token"),
            "COMPILER_AGENT_PULL_REQUEST_DRAFT": "1",
            "COMPILER_AGENT_PULL_REQUEST_LABELS": "kernel, nightly",
        }.items():
            monkeypatch.setenv(name, value)
        assert run_command(["pr", "open"]) == ExitCode.DONE
        (pull,) = server.pulls.all
        assert pull.is_draft
        assert pull.labels == ["kernel", "nightly"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"COMPILER_AGENT_REPOSITORY": ""}, "set COMPILER_AGENT_REPOSITORY"),
        ({"COMPILER_AGENT_REPOSITORY": "/nowhere"}, "COMPILER_AGENT_REPOSITORY names no folder"),
        ({"COMPILER_AGENT_FORGE": "sourceforge"}, "local, github"),
        ({"COMPILER_AGENT_FORGE": "github", "COMPILER_AGENT_REPOSITORY": NAME}, "set GITHUB_TOKEN"),
        ({"COMPILER_AGENT_BASE_BRANCH": "none"}, "no branch none"),
        ({"COMPILER_AGENT_PULL_REQUEST_LIMIT": "many"}, "whole number"),
        ({"COMPILER_AGENT_PULL_REQUEST_FOLDER": "../x"}, "folder in the repository"),
    ],
)
def test_what_the_user_has_to_mend_is_said(home, repository, settings, words, monkeypatch, capsys):
    PastRuns(home).add("run1", Kernel())
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert run_command(["pr", "open"]) == ExitCode.USER_FAULT
    assert words in capsys.readouterr().err.replace("\n", " ")


def test_an_unknown_run_is_said(home, repository, capsys):
    assert run_command(["pr", "open", "run9"]) == ExitCode.USER_FAULT
    assert "run9" in capsys.readouterr().err


def test_nothing_to_propose_is_not_achieved(home, repository, capsys):
    PastRuns(home).add("run1", Kernel(), passes=False)
    assert run_command(["pr", "open", "--json"]) == ExitCode.NOT_ACHIEVED
    assert json.loads(capsys.readouterr().out) == []


def test_what_is_in_conflict_is_not_achieved(home, repository, monkeypatch, capsys):
    """Also where another is open and as it should be."""
    monkeypatch.setenv("COMPILER_AGENT_PULL_REQUEST_LIMIT", "1")
    PastRuns(home).add("run1", PACKED_LINEAR, Kernel())
    run_command(["pr", "open", "--dry-run", "--json"])
    _, norm = json.loads(capsys.readouterr().out)
    folder = re.search(r"compiler_agent_kernels/\w+", norm["difference"])[0]
    assert run_command(["pr", "open", "--json"]) == ExitCode.DONE
    assert [each["kind"] for each in json.loads(capsys.readouterr().out)] == ["opened", "deferred"]
    repository.commit("main", {f"{folder}/mine.cpp": "int mine;\n"})
    assert run_command(["pr", "sync", "--json"]) == ExitCode.NOT_ACHIEVED
    synced = json.loads(capsys.readouterr().out)["outcomes"]
    assert run_command(["pr", "open", "--json"]) == ExitCode.NOT_ACHIEVED
    opened = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in synced] == [each["kind"] for each in opened] == ["unchanged", "conflict"]


def test_what_the_forge_refuses_is_not_achieved(home, tmp_path, monkeypatch, capsys):
    PastRuns(home).add("run1", Kernel())
    with github_server(tmp_path / "github") as server:
        monkeypatch.setenv("COMPILER_AGENT_FORGE", "github")
        monkeypatch.setenv("COMPILER_AGENT_REPOSITORY", NAME)
        monkeypatch.setenv("COMPILER_AGENT_FORGE_URL", server.api_url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        server.may_push = False
        for command in ("open", "sync"):
            assert run_command(["pr", command]) == ExitCode.NOT_ACHIEVED
            assert "refused: rmsnorm" in capsys.readouterr().out
        server.may_push = True
        for command in ("sync", "open"):
            assert run_command(["pr", command]) == ExitCode.DONE


def test_settings_come_from_the_environment():
    assert read_forge_settings({}) is None
    settings = read_forge_settings(
        {
            "COMPILER_AGENT_REPOSITORY": "o/n",
            "COMPILER_AGENT_FORGE": "github",
            "COMPILER_AGENT_PULL_REQUEST_PER": "op",
            "COMPILER_AGENT_TOKEN_VARIABLE": "BOT",
        }
    )
    assert (settings.forge, settings.grouping) == (ForgeName.GITHUB, Grouping.OP)
    assert settings.style.rules.most_open == 3
    assert read_token(settings, {"BOT": " t \n", "GITHUB_TOKEN": "other"}) == "t"
    with pytest.raises(UserFault, match="set GITHUB_TOKEN or the variable"):
        read_token(settings, {"GITHUB_TOKEN": "other"})
    assert "t" not in repr(settings).split()


def test_listing_needs_neither_token_nor_pygithub(home, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "github", None)  # as where it is not installed
    monkeypatch.delitem(sys.modules, "compiler_agent.forges.github", raising=False)
    monkeypatch.setenv("COMPILER_AGENT_FORGE", "github")
    monkeypatch.setenv("COMPILER_AGENT_REPOSITORY", NAME)
    assert run_command(["pr", "list", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == []


SECRET = "ghp_S3CR3T"
"""In every wrong place."""
MISPLACED = [
    {"GITHUB_TOKEN": f"{SECRET}\nx"},
    {"GITHUB_TOKEN": f"{SECRET} x"},
    {"GITHUB_TOKEN": f"{SECRET}\u00c9\u4e2d"},
    {"GITHUB_TOKEN": f"{SECRET}\x1b"},
    {"GITHUB_TOKEN": "", "COMPILER_AGENT_TOKEN_FILE": f"/none/{SECRET}"},
    {"GITHUB_TOKEN": "", "COMPILER_AGENT_TOKEN_VARIABLE": SECRET},
    {"COMPILER_AGENT_FORGE_URL": f"https://user:{SECRET}@h/api/v3"},
    {"COMPILER_AGENT_FORGE_URL": f"file://user:{SECRET}@h"},
    {"COMPILER_AGENT_FORGE_URL": f"https://[{SECRET}/api/v3"},
    {"COMPILER_AGENT_REPOSITORY": f"https://x:{SECRET}@github.com/o/n"},
    {"COMPILER_AGENT_FORGE": "local", "COMPILER_AGENT_REPOSITORY": f"https://x:{SECRET}@github.com/o/n"},
    {"COMPILER_AGENT_FORGE": SECRET},
    {"COMPILER_AGENT_PULL_REQUEST_LIMIT": SECRET},
]


@pytest.mark.parametrize("settings", MISPLACED, ids=[f"{number}-{next(iter(s))}" for number, s in enumerate(MISPLACED)])
def test_no_message_shows_a_secret(home, settings, monkeypatch, capsys):
    PastRuns(home).add("run1", Kernel())
    plain = {"COMPILER_AGENT_FORGE": "github", "COMPILER_AGENT_REPOSITORY": NAME, "GITHUB_TOKEN": "ghp_x"}
    address = {"COMPILER_AGENT_FORGE_URL": "http://127.0.0.1:9/api/v3"}
    for name, value in (plain | address | settings).items():
        monkeypatch.setenv(name, value)
    assert run_command(["pr", "open"]) == ExitCode.USER_FAULT
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert captured.err


def test_a_token_is_checked_alike_wherever_it_is_from(tmp_path):
    path = tmp_path / "token"
    settings = read_forge_settings({"COMPILER_AGENT_REPOSITORY": "o/n", "COMPILER_AGENT_TOKEN_FILE": str(path)})
    for wrong in ("a\nb", "a b", "a\x07b", "\u00c9"):
        path.write_text(wrong)
        for environment in ({"GITHUB_TOKEN": wrong}, {}):
            with pytest.raises(UserFault, match="a token alone"):
                read_token(settings, environment)


def test_a_repository_is_the_same_from_every_folder(home, repository, tmp_path, monkeypatch, capsys):
    PastRuns(home).add("run1", Kernel())
    for folder, kind in (("a", "opened"), ("b", "unchanged")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("COMPILER_AGENT_REPOSITORY", "../kernels")
        run_command(["pr", "open", "--json"])
        (outcome,) = json.loads(capsys.readouterr().out)
        assert outcome["kind"] == kind
