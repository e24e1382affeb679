"""Writing builds, and which of them is live."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.candidate import Candidate
from candidates.device import DeviceFingerprint
from candidates.measurement import Decision
from candidates.serving_build.build import Build, ShippedKernel, read_build, write_build
from candidates.serving_build.builds import BuildNotFound, BuildStore, NothingToRollBack
from candidates.serving_build.manifest import InstallationSite, ranges_of_wins
from candidates.serving_build.runtime import BuildRefused, _holds
from candidates.task import KernelTask, Workload
from traces.sites import SiteKind


def test_the_same_kernels_give_the_same_build(
    tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, swiglu: ShippedKernel
) -> None:
    first = write_build(tmp_path / "one", "tiny", device, [rmsnorm, swiglu])
    second = write_build(tmp_path / "two", "tiny", device, [swiglu, rmsnorm])
    again = write_build(tmp_path / "one", "tiny", device, [rmsnorm, swiglu])
    assert first.id == second.id == again.id
    assert first.path == again.path
    names = {str(path.relative_to(first.path)) for path in first.path.rglob("*") if path.is_file()}
    assert names == {"manifest.json", *first.manifest.files}
    assert not list((tmp_path / "one" / "builds").glob(".unfinished-*"))


def test_another_byte_gives_another_build(tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel) -> None:
    other = ShippedKernel(
        task=rmsnorm.task,
        candidate=rmsnorm.candidate,
        artifact=rmsnorm.artifact + b"\0",
        site=rmsnorm.site,
        measurement=rmsnorm.measurement,
        ranges=rmsnorm.ranges,
    )
    assert write_build(tmp_path, "tiny", device, [rmsnorm]).id != write_build(tmp_path, "tiny", device, [other]).id


def test_a_build_reads_back_as_it_was_written(build: Build) -> None:
    assert read_build(build.path) == build


def test_a_kernel_of_another_device_is_refused(
    tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel
) -> None:
    with pytest.raises(ValueError, match="is for device"):
        write_build(tmp_path, "tiny", device.model_copy(update={"cores": 99}), [rmsnorm])
    assert not (tmp_path / "builds").exists()


def test_a_region_needs_what_serves_its_misses() -> None:
    with pytest.raises(ValueError, match="region0"):
        InstallationSite(kind=SiteKind.REGION, module_paths=("mlp",), region="region0", block_source="")


@pytest.fixture
def store(tmp_path: Path) -> BuildStore:
    return BuildStore(tmp_path)


@pytest.fixture
def ids(tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel) -> tuple[str, str, str]:
    written = [write_build(tmp_path, model, device, [rmsnorm]) for model in ("one", "two", "three")]
    return written[0].id, written[1].id, written[2].id


def test_a_build_is_live_only_once_approved(store: BuildStore, ids: tuple[str, ...]) -> None:
    assert {build.id for build in store.list()} == set(ids)
    assert store.current() is None
    approval = store.approve(ids[0][:10], by="a person")
    assert store.current() == ids[0] == approval.build_id
    assert approval.previous is None
    assert store.history() == (approval,)


def test_rollback_goes_back_the_way_the_approvals_came(store: BuildStore, ids: tuple[str, ...]) -> None:
    for build_id in (*ids, ids[2]):
        store.approve(build_id, by="a person")
    assert store.rollback(by="a person").build_id == ids[1]
    assert store.rollback(by="a person").build_id == ids[0]
    store.approve(ids[2], by="a person")
    assert store.rollback(by="a person").build_id == ids[0]
    last = store.rollback(by="a person")
    assert (last.build_id, last.previous) == (None, ids[0])
    assert store.current() is None
    with pytest.raises(NothingToRollBack):
        store.rollback(by="a person")


def test_an_approval_whose_pointer_never_moved_is_not_rolled_back_to(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path
) -> None:
    store.approve(ids[0], by="a person")
    store.approve(ids[1], by="a person")
    pointer = tmp_path / "builds" / "current"
    pointer.unlink()
    os.symlink(ids[0], pointer)
    assert store.rollback(by="a person").build_id is None


def test_a_changed_build_is_not_approved(store: BuildStore, ids: tuple[str, ...], tmp_path: Path) -> None:
    runtime = tmp_path / "builds" / ids[0] / "runtime.py"
    runtime.write_bytes(runtime.read_bytes() + b"\n")
    with pytest.raises(BuildRefused, match=r"runtime\.py"):
        store.approve(ids[0], by="a person")
    assert store.current() is None
    assert store.history() == ()


@pytest.mark.parametrize("name", ["", "ffffffffffffffff", "../builds"])
def test_an_unknown_build_is_named_with_those_that_exist(store: BuildStore, ids: tuple[str, ...], name: str) -> None:
    with pytest.raises(BuildNotFound, match=ids[0][:12]):
        store.show(name)


def test_an_empty_home_has_no_builds(store: BuildStore) -> None:
    assert store.list() == ()
    assert store.current() is None


@given(wins=st.dictionaries(st.integers(1, 5000), st.booleans(), min_size=1, max_size=8))
def test_ranges_hold_exactly_the_measured_shapes_that_won(wins: dict[int, bool], rmsnorm: ShippedKernel) -> None:
    workloads = tuple(Workload(axes={"batch": 1, "tokens": tokens}, calls_per_hour=1.0) for tokens in wins)
    task: KernelTask = rmsnorm.task.model_copy(update={"workloads": workloads})
    template = rmsnorm.measurement.workloads[0]
    measured = tuple(
        template.model_copy(
            update={"workload": f"batch=1,tokens={tokens}", "decision": Decision.WIN if won else Decision.UNDECIDED}
        )
        for tokens, won in wins.items()
    )
    ranges = ranges_of_wins(task, rmsnorm.measurement.model_copy(update={"workloads": measured}))
    bounds = [[bound.model_dump() for bound in shape_range] for shape_range in ranges]
    for tokens, won in wins.items():
        assert any(_holds(each, {"batch": 1, "tokens": tokens}) for each in bounds) is won
    assert not any(_holds(each, {"batch": 1, "tokens": 2 * max(wins) + 1}) for each in bounds)


def test_candidates_of_one_id_must_have_one_artifact(
    tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, swiglu: ShippedKernel
) -> None:
    other = ShippedKernel(
        task=swiglu.task,
        candidate=Candidate(**rmsnorm.candidate.model_dump()),
        artifact=swiglu.artifact,
        site=swiglu.site,
        measurement=swiglu.measurement,
        ranges=swiglu.ranges,
    )
    with pytest.raises(ValueError, match="two different artifacts"):
        write_build(tmp_path, "tiny", device, [rmsnorm, other])
