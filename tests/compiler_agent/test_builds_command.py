"""`compiler-agent builds` and `keys`, as a person types them."""

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from candidates.ledger.ledger import Ledger
from candidates.promotion import EndToEnd
from candidates.run import BuildRecord, RunRequest, Stage
from candidates.serving_build.build import write_build
from compiler_agent.main import run_command
from compiler_agent.settings import read_settings
from tests.candidates.serving_build.nights import FIGURES
from tests.candidates.serving_build.tiny_tasks import local_device


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LEDGER", "SIGNING_KEY", "TRUSTED_KEYS"):
        monkeypatch.delenv(f"COMPILER_AGENT_{name}", raising=False)
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def say(home: Path, capsys: pytest.CaptureFixture[str]):
    """Runs a command; its document, or None where it failed, and what it told the person."""

    def run(*arguments: str) -> tuple[Any, str]:
        code = run_command([*arguments, "--json"])
        output = capsys.readouterr()
        return (json.loads(output.out) if code == 0 else None), output.err

    return run


def test_a_key_is_made_once_and_its_public_half_shown(say, home: Path) -> None:
    assert "keys new" in say("keys", "show")[1]
    made, _ = say("keys", "new")
    assert say("keys", "show")[0] == made
    assert len(made["public_key"]) == 64
    assert (home / "keys" / "signing.pem").stat().st_mode & 0o777 == 0o600
    assert (home / "keys").stat().st_mode & 0o777 == 0o700
    again, message = say("keys", "new")
    assert again is None
    assert "there already" in message


def test_builds_are_signed_approved_compared_and_collected(say, home: Path) -> None:
    old = write_build(home, "old", local_device(), []).id
    assert "keys new" in say("builds", "sign", old[:12])[1]
    key, _ = say("keys", "new")
    new = write_build(home, "new", local_device(), []).id
    refused, message = say("builds", "approve", "--force", old[:12])
    assert refused is None
    assert "manifest.ed25519 is missing" in message.replace("\n", "")
    assert say("builds", "sign", old[:12])[0] == {"id": old, "signed_by": key["public_key"]}
    assert say("builds", "approve", "--force", old[:12])[0]["build_id"] == old
    assert say("builds", "approve", "--force", new[:12])[0]["previous"] == old
    assert say("builds", "diff", old[:12], new[:12])[0]["settings"] == ["model"]
    assert say("builds", "gc", "--keep", "1")[0] == {"removed": []}
    assert say("builds", "rollback")[0]["build_id"] == old


def test_an_unsigned_build_goes_live_only_where_no_key_is_trusted(
    say, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = write_build(home, "old", local_device(), []).id
    monkeypatch.setenv("COMPILER_AGENT_TRUSTED_KEYS", "0" * 64)
    assert say("builds", "approve", "--force", build[:12])[0] is None
    monkeypatch.delenv("COMPILER_AGENT_TRUSTED_KEYS")
    assert say("builds", "approve", "--force", build[:12])[0]["build_id"] == build
    run_command(["builds", "approve", "--force", build[:12]])


def test_the_public_key_is_all_of_the_output(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It goes into a shell variable."""
    assert run_command(["keys", "new"]) == 0
    made = capfd.readouterr().out
    assert run_command(["keys", "show"]) == 0
    assert capfd.readouterr().out == made
    assert len(made) == 65


def test_an_approval_without_any_key_says_what_that_means(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build = write_build(home, "old", local_device(), []).id
    assert run_command(["builds", "approve", "--force", build[:12]]) == 0
    assert "COMPILER_AGENT_ALLOW_UNSIGNED=1" in capfd.readouterr().err.replace("\n", " ")


def test_what_has_passed_its_gates_goes_live_without_force(say, home: Path) -> None:
    build = write_build(home, "tiny", local_device(), []).id
    ledger = Ledger(read_settings().ledger_url)
    ledger.open_run(RunRequest(traces=("t",), trace_digest="0", model="tiny"), "run")
    ledger.put_build("run", BuildRecord(id=build, path=str(home / "builds" / build), task_ids=()))
    ledger.put_stage("run", Stage.END_TO_END, EndToEnd.model_validate(FIGURES | {"build_id": build, "hits": {"k": 1}}))
    assert say("builds", "list")[0][0]["gates"] == "passed"
    approval, _ = say("builds", "approve", build[:12])
    assert approval["by"] == getpass.getuser()


def test_what_has_not_passed_its_gates_goes_live_by_force_alone(say, home: Path) -> None:
    build = write_build(home, "tiny", local_device(), []).id
    assert say("builds", "list")[0][0]["gates"] == "never measured"
    refused, message = say("builds", "approve", build[:12])
    assert refused is None
    assert "never measured" in message
    approval, _ = say("builds", "approve", "--force", build[:12])
    assert "by force: never measured" in approval["by"]
