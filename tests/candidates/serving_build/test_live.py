"""What becomes of the live build's kernels in the next run, and what that run's build holds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from nights import REJECTED, REPLAY, Night, make_night
from sqlalchemy import delete
from sqlalchemy.orm import Session
from temporalio.testing import ActivityEnvironment

from candidates.device import DeviceFingerprint
from candidates.ledger.flaws import Flaws
from candidates.ledger.promotions import latest_promotion
from candidates.ledger.retractions import Retractions
from candidates.ledger.tables import StageRow
from candidates.measurement import Decision
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.run import LIVE_CHECKS, LiveChecks, PromoteRequest, Stage
from candidates.serving_build.build import ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.live import entry_at, read_live
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.signing import make_key
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
    assert {outcome for outcome, _ in night.checks().values()} == {"stays"}
    assert night.judged == []
    assert night.ships() == {"LlamaRMSNorm": rmsnorm.candidate.id, "Linear": linear.candidate.id}


def test_other_traffic_has_a_kernel_judged_again(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    assert night.checks()["LlamaRMSNorm"][0] == "stays"
    assert night.judged == ["LlamaRMSNorm"]
    assert night.ships().keys() == {"LlamaRMSNorm", "Linear"}


def test_a_new_compiler_has_every_kernel_judged_again(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.device = night.device.model_copy(update={"compiler": "g++ of tomorrow"})
    assert read_live(BuildStore(night.home), night.device) is not None
    night.ranks(*(kernel.task.model_copy(update={"device_id": night.device.id}) for kernel in (rmsnorm, linear)))
    assert {outcome for outcome, _ in night.checks().values()} == {"stays"}
    assert sorted(night.judged) == ["Linear", "LlamaRMSNorm"]


def test_a_kernel_that_wins_no_more_leaves(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    night.decision = Decision.LOSE
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    outcome, reason = night.checks()["LlamaRMSNorm"]
    assert outcome == "lost"
    assert "confirmed win" in reason
    assert night.ships().keys() == {"Linear"}


def test_a_kernel_that_is_wrong_on_the_new_shapes_leaves(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.verdict = REJECTED
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    assert night.checks()["LlamaRMSNorm"] == ("wrong", "rejected: wrong_values: off by two")
    assert night.ships().keys() == {"Linear"}


def test_a_retracted_kernel_leaves_and_says_why(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    Retractions(night.ledger).put(Retraction(candidate_id=rmsnorm.candidate.id, reason="reads too far", by="test"))
    night.ranks(rmsnorm.task, linear.task)
    assert night.checks()["LlamaRMSNorm"] == ("wrong", "retracted: reads too far")
    assert night.ships().keys() == {"Linear"}
    checks = night.ledger.stage("run", LIVE_CHECKS, LiveChecks)
    assert checks is not None
    assert checks.wrong


def test_an_op_that_is_gone_leaves(night: Night, rmsnorm: ShippedKernel) -> None:
    night.ranks(rmsnorm.task)
    assert night.checks()["Linear"][0] == "gone"


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
    assert night.checks()["LlamaRMSNorm"] == ("beaten", "a kernel of this run is faster")
    assert night.ships() == {"LlamaRMSNorm": better.candidate.id, "Linear": linear.candidate.id}


def test_other_hardware_has_no_live_build(night: Night) -> None:
    other = night.device.model_copy(update={"model": "another processor"})
    assert read_live(BuildStore(night.home), other) is None


def test_the_live_kernel_of_a_task_is_at_its_place(night: Night, linear: ShippedKernel) -> None:
    entry = entry_at(night.live, with_other_traffic(linear))
    assert entry is not None
    assert entry.id == linear.candidate.id


def test_a_run_for_gpus_leaves_the_kernels_of_this_cpu_alone(
    tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night = make_night(tmp_path, device, [rmsnorm, linear], architectures=("sm_90",))
    tasks = [kernel.task.aimed_at(("sm_90",), None) for kernel in (rmsnorm, linear)]
    assert [entry_at(night.live, task) for task in tasks] == [None, None]
    night.ranks(*tasks)
    night.looks_at_live()
    assert night.ledger.stage("run", LIVE_CHECKS, LiveChecks) is None
    assert night.judged == []


def test_a_kernel_that_the_ledger_does_not_know_leaves_and_is_not_called_wrong(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel, ship: Callable[..., ShippedKernel]
) -> None:
    stranger = ship(rmsnorm.task, f"// of another ledger\n{rmsnorm.candidate.source}", rmsnorm.site)
    build = write_build(night.home, "tiny", night.device, [stranger, linear])
    BuildStore(night.home).approve(build.id, by="a person")
    night.ranks(rmsnorm.task, linear.task)
    assert night.checks()["LlamaRMSNorm"] == ("lost", "the ledger does not know its artifact")
    assert Flaws(night.ledger).first_in(build) is None


def test_what_a_live_check_found_wrong_serves_no_more(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.verdict = REJECTED
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    night.checks()
    flaw = Flaws(night.ledger).first_in(night.live)
    assert flaw == f"LlamaRMSNorm {rmsnorm.candidate.id[:12]}: rejected: wrong_values: off by two"
    assert latest_promotion(night.ledger, rmsnorm.task.id) is None


def test_a_check_that_was_killed_halfway_finds_its_own_promotions(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    first = night.checks()
    with Session(night.ledger.engine) as session, session.begin():
        session.execute(delete(StageRow).where(StageRow.stage == LIVE_CHECKS))
    assert night.checks() == first
    assert night.judged == ["LlamaRMSNorm"]


def test_what_the_ledger_recorded_is_shipped_and_not_what_lies_in_the_folder(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    forged = ShippedKernel(
        task=rmsnorm.task,
        candidate=rmsnorm.candidate,
        artifact=b"another library",
        site=rmsnorm.site,
        measurement=rmsnorm.measurement,
        ranges=rmsnorm.ranges,
    )
    other = write_build(night.home, "tiny", night.device, [forged, linear])
    BuildStore(night.home).approve(other.id, by="a hand in the folder")
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    night.checks()
    night.ships()
    build = next(build for build in BuildStore(night.home).list() if build.id not in (other.id, night.live.id))
    entry = next(entry for entry in build.manifest.kernels if entry.op == "LlamaRMSNorm")
    assert (build.path / entry.library).read_bytes() == rmsnorm.artifact


def test_an_unsigned_live_build_is_refused_where_keys_are_trusted(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    make_key(night.home)
    night.ranks(rmsnorm.task, linear.task)
    with pytest.raises(BuildRefused):
        night.checks()


def test_a_retracted_kernel_is_live_neither_by_setting_nor_by_rollback(
    tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night = make_night(tmp_path, device, [rmsnorm, linear], approve_automatically=True)
    night.ledger.put_stage("run", Stage.REPLAY, REPLAY)
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    night.verdict = REJECTED
    night.checks()
    night.ships()
    Retractions(night.ledger).put(Retraction(candidate_id=linear.candidate.id, reason="wrong", by="test"))
    night.concludes(live_build=night.live.id)
    assert BuildStore(tmp_path).current() != night.live.id
    assert night.ledger.report("run") is not None


@pytest.fixture
def shipped(tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, linear: ShippedKernel) -> Night:
    """Has made its build, and makes it live by itself where it passes."""
    night = make_night(tmp_path, device, [rmsnorm, linear], approve_automatically=True)
    night.ledger.put_stage("run", Stage.REPLAY, REPLAY)
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    night.checks()
    night.ships()
    return night


def test_a_build_that_somebody_else_replaced_waits_for_a_person(shipped: Night, linear: ShippedKernel) -> None:
    other = write_build(shipped.home, "another model", shipped.device, [linear])
    BuildStore(shipped.home).approve(other.id, by="a person")
    shipped.concludes(live_build=shipped.live.id)
    assert BuildStore(shipped.home).current() == other.id


def test_what_a_person_decides_afterwards_stays(shipped: Night) -> None:
    shipped.concludes(live_build=shipped.live.id)
    store = BuildStore(shipped.home)
    assert store.current() != shipped.live.id
    store.rollback(by="a person")
    shipped.concludes(live_build=shipped.live.id)  # the activity tried again
    assert store.current() == shipped.live.id


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
