"""Writing builds, and which of them is live."""

import json
import os
import subprocess
import sys
import textwrap
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.candidate import Candidate
from candidates.device import DeviceFingerprint
from candidates.measurement import Decision
from candidates.serving_build.build import Build, ShippedKernel, read_build, write_build
from candidates.serving_build.builds import APPROVED_KEPT_DAYS, BuildNotFound, BuildStore, NothingToRollBack
from candidates.serving_build.difference import compare_builds
from candidates.serving_build.manifest import InstallationSite, ranges_of_wins
from candidates.serving_build.runtime import BuildRefused, _holds
from candidates.serving_build.signing import make_key, sign_build
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


def test_one_candidate_may_be_built_for_two_tasks(
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
    build = write_build(tmp_path, "tiny", device, [rmsnorm, other])
    shipped = {entry.task_id: (build.path / entry.library).read_bytes() for entry in build.manifest.kernels}
    assert shipped == {rmsnorm.task.id: rmsnorm.artifact, other.task.id: other.artifact}


def test_a_home_with_a_key_makes_only_signed_builds_live(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path
) -> None:
    make_key(tmp_path, {})
    with pytest.raises(BuildRefused, match=r"manifest\.ed25519 is missing"):
        store.approve(ids[0], by="a person")
    sign_build(tmp_path, tmp_path / "builds" / ids[0], {})
    assert store.approve(ids[0], by="a person").build_id == ids[0] == store.current()


def test_the_live_pointer_is_no_build(store: BuildStore, ids: tuple[str, ...]) -> None:
    store.approve(ids[0], by="a person")
    assert {build.id for build in store.list()} == set(ids)
    with pytest.raises(BuildNotFound):
        store.show("current")


def age_approvals(home: Path, days: float) -> None:
    path = home / "builds" / "approvals.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")
    path.write_text("".join(json.dumps(record | {"at": at}) + "\n" for record in records))


def test_garbage_collection_keeps_the_live_build_and_the_way_back(
    tmp_path: Path, store: BuildStore, device: DeviceFingerprint, rmsnorm: ShippedKernel
) -> None:
    written = []
    for age, model in enumerate(("zero", "one", "two", "three", "four", "five")):
        written.append(write_build(tmp_path, model, device, [rmsnorm]).id)
        os.utime(tmp_path / "builds" / written[-1], (1e9 + age, 1e9 + age))
    for place in (0, 2, 1):
        store.approve(written[place], by="a person")
    age_approvals(tmp_path, APPROVED_KEPT_DAYS + 1)
    assert set(store.collect_garbage(keep=1)) == {written[0], written[3], written[4]}
    assert {build.id for build in store.list()} == {written[1], written[2], written[5]}
    assert store.current() == written[1]
    assert store.rollback(by="a person").build_id == written[2]


def test_garbage_collection_keeps_what_was_approved_lately(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path
) -> None:
    for build_id in ids:
        store.approve(build_id, by="a person")
    store.rollback(by="a person")
    store.rollback(by="a person")
    assert store.collect_garbage(keep=0) == ()
    age_approvals(tmp_path, APPROVED_KEPT_DAYS + 1)
    assert set(store.collect_garbage(keep=0, dry_run=True)) == {ids[1], ids[2]}
    assert set(store.collect_garbage(keep=0, wanted=(ids[1],))) == {ids[2]}
    assert {build.id for build in store.list()} == {ids[0], ids[1]}
    assert store.current() == ids[0]


def test_garbage_collection_keeps_as_many_ways_back_as_are_asked_for(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path
) -> None:
    for age, build_id in enumerate(ids):
        store.approve(build_id, by="a person")
        os.utime(tmp_path / "builds" / build_id, (1e9 + age, 1e9 + age))
    age_approvals(tmp_path, APPROVED_KEPT_DAYS + 1)
    assert store.collect_garbage(keep=2) == ()
    assert store.collect_garbage(keep=1) == (ids[0],)


def test_a_build_that_is_written_again_counts_as_new(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel
) -> None:
    for build_id in ids:
        os.utime(tmp_path / "builds" / build_id, (1e9, 1e9))
    write_build(tmp_path, "one", device, [rmsnorm])
    assert set(store.collect_garbage(keep=1)) == {ids[1], ids[2]}


def test_what_killed_processes_left_is_pruned_once_it_is_old(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path
) -> None:
    builds = tmp_path / "builds"
    (builds / ".unfinished-old" / "kernels").mkdir(parents=True)
    (builds / ".unfinished-file").write_text("")
    (builds / ".current-1").symlink_to(ids[0])
    for name in (".unfinished-old", ".unfinished-file", ".current-1"):
        os.utime(builds / name, (time.time() - 7200,) * 2, follow_symlinks=False)
    (builds / ".unfinished-now").mkdir()
    assert store.collect_garbage(keep=5) == ()
    assert [path.name for path in builds.glob(".*")].count(".unfinished-now") == 1
    assert {path.name for path in builds.glob(".*")} == {".unfinished-now", ".lock"}
    assert (builds / ids[0]).is_dir()


KILLED_AT_EACH_LINE = """
    import os, signal, sys
    from pathlib import Path
    from candidates.serving_build import builds

    home, action, build_id = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

    def act(lines_left):
        def trace(frame, event, _):
            nonlocal lines_left
            if frame.f_code.co_filename != builds.__file__:
                return None
            if event == "line":
                lines_left -= 1
                if lines_left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace
        store = builds.BuildStore(home)
        sys.settrace(trace)
        store.approve(build_id, by="killed") if action == "approve" else store.rollback(by="killed")
        sys.settrace(None)
        os._exit(0)

    folder = home / "builds"
    approvals, pointer = (folder / "approvals.jsonl").read_bytes(), os.readlink(folder / "current")
    status, step = signal.SIGKILL, 0
    while os.WIFSIGNALED(status):
        (folder / "approvals.jsonl").write_bytes(approvals)
        (folder / "current").unlink()
        (folder / "current").symlink_to(pointer)
        if not (child := os.fork()):
            act(step)
        _, status = os.waitpid(child, 0)
        store = builds.BuildStore(home)
        store.show(store.current())
        assert store.current() in {pointer, store.history()[-1].build_id}
        print(store.current(), flush=True)
        step += 1
    assert status == 0
"""


@pytest.mark.parametrize("action", ["approve", "rollback"])
def test_killed_at_any_line_the_pointer_is_the_old_build_or_the_new(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path, action: str
) -> None:
    store.approve(ids[0], by="a person")
    store.approve(ids[1], by="a person")
    new = ids[2] if action == "approve" else ids[0]
    program = textwrap.dedent(KILLED_AT_EACH_LINE)
    finished = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), action, new], capture_output=True, text=True, cwd=Path.cwd()
    )
    assert finished.returncode == 0, finished.stderr
    live = finished.stdout.split()
    moved = live.index(new)
    assert moved > 20
    assert live == [ids[1]] * moved + [new] * (len(live) - moved)


def test_a_torn_line_of_the_history_never_happened(store: BuildStore, ids: tuple[str, ...], tmp_path: Path) -> None:
    first = store.approve(ids[0], by="a person")
    with (tmp_path / "builds" / "approvals.jsonl").open("a") as file:
        file.write('{"action": "approve", "build_id": "')
    assert store.history() == (first,)
    second = store.approve(ids[1], by="a person")
    assert store.history() == (first, second)
    assert store.rollback(by="a person").build_id == ids[0]


@pytest.mark.parametrize("end", ["\u2028", "\u0085", "\x0b", "\r", "\n"])
def test_a_name_that_ends_a_line_breaks_no_history(store: BuildStore, ids: tuple[str, ...], end: str) -> None:
    approval = store.approve(ids[0], by=f"ann{end}bob")
    assert store.history() == (approval,)
    assert store.rollback(by="eve").previous == ids[0]


def test_a_rollback_skips_approvals_that_a_kill_kept_from_happening(
    store: BuildStore, ids: tuple[str, ...], tmp_path: Path
) -> None:
    store.approve(ids[0], by="a person")
    store.approve(ids[1], by="a person")
    (tmp_path / "builds" / "current").unlink()
    (tmp_path / "builds" / "current").symlink_to(ids[0])  # as if killed before the pointer moved
    store.approve(ids[2], by="a person")
    assert store.rollback(by="a person").build_id == ids[0]


def test_what_changes_between_two_builds_is_told(
    tmp_path: Path,
    device: DeviceFingerprint,
    ship,
    rmsnorm: ShippedKernel,
    swiglu: ShippedKernel,
    linear: ShippedKernel,
) -> None:
    other = ship(rmsnorm.task, rmsnorm.candidate.source + "// other", rmsnorm.site, rmsnorm.ranges)
    before = write_build(tmp_path, "tiny", device, [rmsnorm, swiglu]).manifest
    after = write_build(tmp_path, "small", device, [other, linear]).manifest
    difference = compare_builds(before, after)
    assert difference.settings == ("model",)
    assert (difference.added, difference.removed) == (("Linear",), ("LlamaMLP.region0",))
    (changed,) = difference.changed
    assert (changed.op, changed.before_id, changed.id) == ("LlamaRMSNorm", rmsnorm.candidate.id, other.candidate.id)
    assert changed.changes == ("id", "library")
    assert not difference.is_runtime_changed
    same = compare_builds(before, before)
    assert (same.settings, same.added, same.removed, same.changed) == ((), (), (), ())
