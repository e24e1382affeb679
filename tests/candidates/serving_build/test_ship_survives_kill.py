"""Kill -9 while a build is shipped: afterwards there is one build, and what is live is whole. (The steps of a pull
request are killed with its own tests.)"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nights import REPLAY, SHIP, Night, make_night

from candidates.device import DeviceFingerprint
from candidates.ledger.ledger import Ledger
from candidates.run import RunReport, Stage
from candidates.serving_build import build as building
from candidates.serving_build.build import ShippedKernel, read_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.signing import make_key
from candidates.task import Workload
from workflows.activities import ship as shipping


def die(*arguments: Any, **keywords: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def ship(night: Night) -> RunReport:
    """The steps of ShipWinner that write, as often as they were begun."""
    ledger = Ledger(str(night.ledger.engine.url))
    again = Night(home=night.home, ledger=ledger, blobs=night.blobs, device=night.device, live=night.live)
    again.ships()
    again.concludes(live_build=night.live.id)
    report = ledger.report(SHIP.run_id)
    assert isinstance(report, RunReport)
    return report


def killed_in(action: Callable[[], object]) -> None:
    """Runs it in a process that a signal ends."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)  # reached by a step that was never taken
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def before(owner: Any, name: str, is_due: Callable[..., bool] = lambda *arguments: True) -> Callable[[], None]:
    """Dies where `owner.name` is called."""

    def patch() -> None:
        original = getattr(owner, name)

        def dying(*arguments: Any, **keywords: Any) -> Any:
            return die() if is_due(*arguments) else original(*arguments, **keywords)

        setattr(owner, name, dying)

    return patch


def after(owner: Any, name: str, is_due: Callable[..., bool]) -> Callable[[], None]:
    def patch() -> None:
        original = getattr(owner, name)

        def dying(*arguments: Any, **keywords: Any) -> Any:
            result = original(*arguments, **keywords)
            return die() if is_due(*arguments) else result

        setattr(owner, name, dying)

    return patch


def is_current(path: Path, target: object) -> bool:
    return Path(str(target)).name == "current"


STEPS = {
    "before anything": before(shipping, "write_build"),
    "write": before(building, "_write_whole"),
    "write, one file in": after(os, "fsync", lambda *arguments: True),
    "write, before it has its name": before(Path, "rename"),
    "write, just named": after(Path, "rename", lambda *arguments: True),
    "sign": before(building, "sign_build"),
    "switch": before(Path, "replace", is_current),
    "switch, just made": after(Path, "replace", is_current),
    "report": before(Ledger, "end_run"),
}


@pytest.mark.parametrize("step", STEPS)
def test_ship_survives_kill(
    tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, linear: ShippedKernel, step: str
) -> None:
    make_key(tmp_path)
    night = make_night(tmp_path, device, [rmsnorm, linear], approve_automatically=True)
    changed = rmsnorm.task.model_copy(
        update={"workloads": (Workload(axes={"batch": 4, "tokens": 1}, calls_per_hour=30.0),)}
    )
    night.ledger.put_stage(SHIP.run_id, Stage.REPLAY, REPLAY)
    night.ranks(changed, linear.task)
    night.checks()

    def shipped_by_the_dying() -> None:
        STEPS[step]()
        ship(night)

    killed_in(shipped_by_the_dying)
    store = BuildStore(tmp_path)
    live = store.current()
    assert live is not None
    read_build(store.show(live).path)
    report = ship(night)
    assert report.build is not None
    assert report.build.live
    assert store.current() == report.build.id != night.live.id
    assert {build.id for build in store.list()} == {night.live.id, report.build.id}
    assert [approval.build_id for approval in store.history()].count(report.build.id) >= 1
    read_build(store.show(report.build.id).path)
