"""What the page may change, on a real home."""

from pathlib import Path

import pytest

from candidates.ledger.events import EventType, Positions, events_after
from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.promotion import Retraction
from candidates.serving_build.build import ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.signing import make_key
from compiler_agent.board_actions import BuildActions
from compiler_agent.settings import Settings, read_settings
from leaderboard.access.actions import ActionRefused, Actions, Moved
from tests.candidates.serving_build.conftest import linear, rmsnorm, ship  # noqa: F401
from tests.candidates.serving_build.tiny_tasks import local_device


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("LEDGER", "SIGNING_KEY", "TRUSTED_KEYS"):
        monkeypatch.delenv(f"COMPILER_AGENT_{name}", raising=False)
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    return read_settings()


@pytest.fixture
def actions(settings: Settings) -> Actions:
    return BuildActions(settings)


def go_live(settings: Settings, model: str, *kernels: ShippedKernel) -> str:
    build = write_build(settings.home, model, local_device(), list(kernels)).id
    BuildStore(settings.home).approve(build, by="test")
    return build


def test_moves_back_and_the_ledger_knows_who_did_it(settings: Settings, actions: Actions) -> None:
    old, new = go_live(settings, "old"), go_live(settings, "new")
    assert actions.rollback("ann") == Moved(live=old, previous=new)
    assert BuildStore(settings.home).current() == old
    (event,) = events_after(Ledger(settings.ledger_url), Positions())
    assert event.type is EventType.BUILD_ROLLED_BACK
    assert (event.circumstances.build_id, event.circumstances.by) == (old, "ann")
    assert actions.rollback("bob") == Moved(live=None, previous=old)


def test_passes_over_a_build_with_a_kernel_that_was_taken_back(
    settings: Settings,
    actions: Actions,
    rmsnorm: ShippedKernel,  # noqa: F811
    linear: ShippedKernel,  # noqa: F811
) -> None:
    good, bad = go_live(settings, "m", linear), go_live(settings, "m", rmsnorm)
    new = go_live(settings, "m", rmsnorm, linear)
    ledger = Ledger(settings.ledger_url)
    ledger.put_candidate(rmsnorm.candidate)
    Retractions(ledger).put(Retraction(candidate_id=rmsnorm.candidate.id, reason="wrong", by="ann"))
    assert bad != new
    assert actions.rollback("ann") == Moved(live=good, previous=new)


def test_says_why_it_cannot(settings: Settings, actions: Actions) -> None:
    with pytest.raises(ActionRefused, match="no build is live"):
        actions.rollback("ann")
    live = go_live(settings, "old")
    make_key(settings.home)
    (settings.home / "keys" / "signing.pem").chmod(0o644)
    with pytest.raises(ActionRefused, match="chmod 600"):
        actions.rollback("ann")
    assert BuildStore(settings.home).current() == live


def test_a_refusal_does_not_say_where_the_home_is(settings: Settings, actions: Actions) -> None:
    with pytest.raises(ActionRefused, match="no build is live") as refused:
        actions.rollback("ann")
    assert str(settings.home) not in str(refused.value)


def test_another_build_than_was_meant_stays_live(settings: Settings, actions: Actions) -> None:
    old, new = go_live(settings, "old"), go_live(settings, "new")
    with pytest.raises(ActionRefused, match=f"{new} is live, and not {old}"):
        actions.rollback("ann", old)
    assert BuildStore(settings.home).current() == new
    assert not events_after(Ledger(settings.ledger_url), Positions())
    assert actions.rollback("ann", new) == Moved(live=old, previous=new)
