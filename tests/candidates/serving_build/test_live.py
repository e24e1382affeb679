"""What becomes of the live build's kernels in the next run, and what that run's build holds."""

from pathlib import Path

import pytest
from nights import REJECTED, REPLAY, Night, make_night
from temporalio.testing import ActivityEnvironment

from candidates.device import DeviceFingerprint
from candidates.ledger.promotions import latest_promotion
from candidates.ledger.retractions import Retractions
from candidates.measurement import Decision
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.run import LIVE_CHECKS, LiveChecks, PromoteRequest, Stage
from candidates.serving_build.build import ShippedKernel
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.live import entry_at, live_kernel, read_live
from candidates.task import KernelTask, Workload
from workflows.activities.ship import ShipActivities
from workflows.payloads import ShipInput


@pytest.fixture
def night(tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, linear: ShippedKernel) -> Night:
    return make_night(tmp_path, device, [rmsnorm, linear])


def with_other_traffic(kernel: ShippedKernel) -> KernelTask:
    return kernel.task.model_copy(
        update={"workloads": (Workload(axes={"batch": 4, "tokens": 1}, calls_per_hour=30.0),)}
    )


def test_what_nothing_has_changed_for_stays_unmeasured(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.ranks(rmsnorm.task, linear.task)
    assert {stays for stays, _ in night.checks().values()} == {True}
    assert night.judged == []
    assert night.ships() == {"LlamaRMSNorm": rmsnorm.candidate.id, "Linear": linear.candidate.id}


def test_other_traffic_has_a_kernel_judged_again(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    assert night.checks()["LlamaRMSNorm"] == (True, "it still wins")
    assert night.judged == ["LlamaRMSNorm"]
    assert night.ships().keys() == {"LlamaRMSNorm", "Linear"}


def test_a_new_compiler_has_every_kernel_judged_again(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.device = night.device.model_copy(update={"compiler": "g++ of tomorrow"})
    assert read_live(BuildStore(night.home), night.device) is not None
    night.ranks(*(kernel.task.model_copy(update={"device_id": night.device.id}) for kernel in (rmsnorm, linear)))
    assert {stays for stays, _ in night.checks().values()} == {True}
    assert sorted(night.judged) == ["Linear", "LlamaRMSNorm"]


def test_a_kernel_that_wins_no_more_leaves(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    night.decision = Decision.LOSE
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    stays, reason = night.checks()["LlamaRMSNorm"]
    assert not stays
    assert "confirmed win" in reason
    assert night.ships().keys() == {"Linear"}


def test_a_kernel_that_is_wrong_on_the_new_shapes_leaves(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.verdict = REJECTED
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    assert night.checks()["LlamaRMSNorm"] == (False, "rejected: wrong_values: off by two")
    assert night.ships().keys() == {"Linear"}


def test_a_retracted_kernel_leaves_and_says_why(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    Retractions(night.ledger).put(Retraction(candidate_id=rmsnorm.candidate.id, reason="reads too far", by="test"))
    night.ranks(rmsnorm.task, linear.task)
    assert night.checks()["LlamaRMSNorm"] == (False, "retracted: reads too far")
    assert night.ships().keys() == {"Linear"}
    checks = night.ledger.stage("run", LIVE_CHECKS, LiveChecks)
    assert checks is not None
    assert checks.some_fail


def test_an_op_that_is_gone_leaves(night: Night, rmsnorm: ShippedKernel) -> None:
    night.ranks(rmsnorm.task)
    assert not night.checks()["Linear"][0]


def test_a_better_kernel_takes_the_place(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel, ship: object
) -> None:
    assert callable(ship)
    better = ship(rmsnorm.task, f"// better\n{rmsnorm.candidate.source}", rmsnorm.site)
    night.ledger.put_candidate(better.candidate)
    night.ledger.put_artifact(better.task.id, better.candidate.id, night.blobs.put(better.artifact))
    night.ledger.put_measurement("run", better.task.id, better.candidate.id, better.measurement)
    won = Gate(name="won", figure=2.0, bound="> 1", passed=True)
    night.ledger.put_promotion(
        "run", PromotionDecision(task_id=better.task.id, candidate_id=better.candidate.id, gates=(won,))
    )
    night.ranks(rmsnorm.task, linear.task)
    assert night.checks()["LlamaRMSNorm"] == (False, "beaten")
    assert night.ships() == {"LlamaRMSNorm": better.candidate.id, "Linear": linear.candidate.id}


def test_other_hardware_has_no_live_build(night: Night) -> None:
    other = night.device.model_copy(update={"model": "another processor"})
    assert read_live(BuildStore(night.home), other) is None


def test_the_live_kernel_of_a_task_is_what_was_shipped(night: Night, linear: ShippedKernel) -> None:
    entry = entry_at(night.live, with_other_traffic(linear))
    assert entry is not None
    assert live_kernel(night.live, entry, linear.candidate).artifact == linear.artifact


def test_a_promotion_ships_the_newest_kernel_of_a_task(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.ranks(rmsnorm.task, linear.task)
    night.checks()  # which records both kernels as promoted in `run`
    night.ledger.put_stage("run", Stage.REPLAY, REPLAY)
    base = night.ledger.run_request("run")
    request = PromoteRequest.model_validate(base.model_dump() | {"base_run": "run", "task_ids": (rmsnorm.task.id,)})
    night.ledger.open_run(request, "promotion")
    activities = ShipActivities(night.ledger, night.blobs, night.home, night.device)
    ship = ShipInput(run_id="promotion", device_id="cpu")
    for _ in range(2):
        ActivityEnvironment().run(activities.gather_wins, ship)
    shipped = ActivityEnvironment().run(activities.assemble_build, ship)
    kernels = BuildStore(night.home).show(shipped.build_id).manifest.kernels
    assert [entry.id for entry in kernels] == [rmsnorm.candidate.id]
    Retractions(night.ledger).put(Retraction(candidate_id=rmsnorm.candidate.id, reason="wrong", by="test"))
    assert latest_promotion(night.ledger, rmsnorm.task.id) is None
