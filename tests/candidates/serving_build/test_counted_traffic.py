"""Counters of a live build as the traffic of the next search."""

import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from candidates.device import DeviceFingerprint
from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import RunStates
from candidates.nightly import NightlySchedule
from candidates.phases import is_of_phase
from candidates.run import RunRequest
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.counted_traffic import read_counted_traffic
from candidates.serving_build.counters import CountersUnreadable, read_counters
from traces.sources.fsspec_source import FsspecSource
from workflows.activities.nightly import NightlyActivities
from workflows.payloads import NightInput


@pytest.fixture
def live(tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, linear: ShippedKernel) -> Build:
    return write_build(tmp_path, "tiny", device, [rmsnorm, linear])


def counters(folder: Path, build_id: str, **kernels: dict[str, dict[str, int]]) -> Path:
    path = folder / "counters.json"
    path.write_text(json.dumps({"build_id": build_id, "obstacle": None, "failures": {}, "kernels": kernels}))
    return path


def test_workloads_are_those_that_were_served_and_missed(tmp_path: Path, live: Build, rmsnorm: ShippedKernel) -> None:
    seen = {"shapes": {"batch=1,tokens=1": 10}, "missed_shapes": {"batch=32,tokens=1": 90}}
    path = counters(tmp_path, live.id, **{rmsnorm.candidate.id: seen})
    (workload,) = read_counted_traffic(path, BuildStore(tmp_path)).applied_to(rmsnorm.task).public_workloads
    assert workload.axes == {"batch": 32, "tokens": 1}
    assert workload.calls_per_hour == pytest.approx(0.9 * rmsnorm.task.public_workloads[0].calls_per_hour)


def test_what_another_kernel_of_the_site_serves_is_not_missed(
    tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, ship: Callable[..., ShippedKernel]
) -> None:
    few = ship(rmsnorm.task, f"// for few rows\n{rmsnorm.candidate.source}", rmsnorm.site)
    build = write_build(tmp_path, "tiny", device, [rmsnorm, few])
    decode = {"shapes": {"batch=1,tokens=1": 900}}
    prefill = {"shapes": {"batch=1,tokens=64": 30}, "missed_shapes": {"batch=1,tokens=1": 900, "batch=1,tokens=9": 5}}
    path = counters(tmp_path, build.id, **{few.candidate.id: decode, rmsnorm.candidate.id: prefill})
    places = read_counted_traffic(path, BuildStore(tmp_path))._places
    assert {"batch=1,tokens=64": 30, "batch=1,tokens=9": 5} in [dict(shapes) for _, shapes in places]


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("decode", {"batch=1,tokens=1": 10, "batch=32,tokens=1": 90}),
        ("prefill", {"batch=1,tokens=1": 10, "batch=1,tokens=64": 70}),
    ],
)
def test_what_the_other_phase_sends_is_not_missed(
    tmp_path: Path,
    device: DeviceFingerprint,
    rmsnorm: ShippedKernel,
    ship: Callable[..., ShippedKernel],
    phase: str,
    expected: dict[str, int],
) -> None:
    task = rmsnorm.task.model_copy(update={"op": f"{rmsnorm.task.op}.{phase}"})
    kernel = ship(task, rmsnorm.candidate.source, rmsnorm.site)
    build = write_build(tmp_path, "tiny", device, [kernel])
    seen = {"shapes": {"batch=1,tokens=1": 10}, "missed_shapes": {"batch=32,tokens=1": 90, "batch=1,tokens=64": 70}}
    path = counters(tmp_path, build.id, **{kernel.candidate.id: seen})
    ((_, shapes),) = read_counted_traffic(path, BuildStore(tmp_path))._places
    assert dict(shapes) == expected


@pytest.mark.parametrize(
    ("op", "axes", "expected"),
    [
        ("Linear.decode", {"batch": 32, "tokens": 1}, True),
        ("Linear.prefill", {"batch": 32, "tokens": 1}, False),
        ("Linear.prefill", {"tokens": 9}, True),
        ("Linear.decode", {"rows": 1}, True),
        ("Linear.prefill", {"rows": 1}, False),
        ("Linear.decode", {"rows": 8}, False),
        ("Linear.prefill", {"rows": 8}, False),
        ("Linear.decode", {"size0": 1}, False),
        ("Linear", {"rows": 8}, True),
    ],
)
def test_a_shape_counts_for_a_phase_only_where_it_tells(op: str, axes: dict[str, int], expected: bool) -> None:
    assert is_of_phase(op, axes) is expected


def test_what_was_not_counted_stays(tmp_path: Path, live: Build, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    path = counters(tmp_path, live.id, **{rmsnorm.candidate.id: {"shapes": {"batch=4,tokens=1": 3}}})
    traffic = read_counted_traffic(path, BuildStore(tmp_path))
    assert traffic.applied_to(linear.task) == linear.task
    assert traffic.applied_to(rmsnorm.task).public_workloads[0].axes == {"batch": 4, "tokens": 1}


@pytest.mark.parametrize("shapes", [{}, {"scalar": 5}, {"rows=3": 5}, {"batch=x,tokens=1": 5}, {"batch=0,tokens=1": 5}])
def test_shapes_that_are_none_of_the_tasks_count_nothing(
    tmp_path: Path, live: Build, rmsnorm: ShippedKernel, shapes: dict[str, int]
) -> None:
    path = counters(tmp_path, live.id, **{rmsnorm.candidate.id: {"shapes": shapes}})
    assert read_counted_traffic(path, BuildStore(tmp_path)).applied_to(rmsnorm.task) == rmsnorm.task


def test_a_folder_in_the_place_of_counters_is_named_and_left_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CountersUnreadable, match="cannot be read"):
        read_counters(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"build_id": 3, "kernels": {}}', '{"build_id": "b", "kernels": []}'])
def test_a_file_that_is_no_counters_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(CountersUnreadable, match=r"other\.json"):
        read_counted_traffic(path, BuildStore(tmp_path))


def test_a_night_takes_a_copy_of_what_processes_of_the_live_build_counted(
    tmp_path: Path, live: Build, rmsnorm: ShippedKernel
) -> None:
    folder, ledger = tmp_path / "counters", Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    folder.mkdir()
    (tmp_path / "logs").mkdir()
    header = '{"format": "compiler-agent-requests", "version": 1}'
    (tmp_path / "logs" / "a").write_text(f'{header}\n{{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 1}}\n')
    schedule = NightlySchedule(
        name="chat",
        cron="0 2 * * *",
        time_zone="UTC",
        source=str(tmp_path / "logs"),
        device_id="cpu-1",
        template=RunRequest(traces=(), trace_digest="", model="tiny"),
        counters=str(folder),
        fewest_requests=1,
    )
    for name in ("one", "two"):
        seen = {"shapes": {"batch=1,tokens=1": 10}}
        counters(folder, live.id, **{rmsnorm.candidate.id: seen}).rename(folder / f"{name}.json")
    counters(folder, "another build", **{rmsnorm.candidate.id: seen})
    activities = NightlyActivities(ledger, tmp_path, FsspecSource)

    def spend(night_id: str) -> RunRequest:
        ask = NightInput(night_id=night_id, began_at=datetime(2026, 1, 1, tzinfo=UTC), schedule=schedule)
        ActivityEnvironment().run(activities.collect_traffic, ask)
        return ledger.run_request(night_id)

    assert spend("nothing is live").counters is None
    RunStates(ledger).put_failure("nothing is live", "one night at a time")
    BuildStore(tmp_path).approve(live.id, "tests")
    request = spend("live")
    assert request.counters is not None
    copy = Path(request.counters)
    assert copy.parent.name == request.counters_digest == hashlib.sha256(copy.read_bytes()).hexdigest()
    assert read_counters(copy).kernels[rmsnorm.candidate.id].shapes == {"batch=1,tokens=1": 20}
