import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.workloads import RADIUS, SeenWorkload, distance, select_workloads

SEEN = st.builds(
    SeenWorkload,
    axes=st.fixed_dictionaries({"batch": st.integers(1, 32), "tokens": st.integers(1, 2048)}),
    calls_per_hour=st.floats(0, 1e6, allow_subnormal=False),
    calls_per_hour_by_class=st.just({}),
    time_us=st.floats(1.0, 1e6),
)


def seen(batch: int, calls: float, time_us: float = 1.0, **classes: float) -> SeenWorkload:
    return SeenWorkload(axes={"batch": batch}, calls_per_hour=calls, calls_per_hour_by_class=classes, time_us=time_us)


@given(st.lists(SEEN, min_size=1, max_size=40), st.integers(1, 16))
def test_selection_is_small_disjoint_and_keeps_all_covered_calls(workloads: list[SeenWorkload], keep: int) -> None:
    total = sum(workload.weight for workload in workloads)
    if total <= 0:
        with pytest.raises(ValueError, match="has traffic"):
            select_workloads(workloads, keep)
        return
    selection = select_workloads(workloads, keep)
    public = [workload for workload in selection.workloads if not workload.is_hidden]
    names = [workload.name for workload in selection.workloads]
    assert 1 <= len(public) <= keep
    assert len(set(names)) == len(names)
    assert len(public) < len(names)  # something stays hidden
    near = [w for w in workloads if any(distance(w.axes, p.axes) <= RADIUS for p in public)]
    assert selection.covered_share <= sum(w.weight for w in near) / total + 1e-3
    if selection.covered_share == 1.0 and all(w.weight / total > 1e-3 for w in workloads):
        assert sum(p.calls_per_hour for p in public) == pytest.approx(sum(w.calls_per_hour for w in workloads))


def test_time_and_not_calls_decides_what_is_kept() -> None:
    selection = select_workloads([seen(1, calls=1000.0, time_us=1.0), seen(64, calls=10.0, time_us=1000.0)], keep=1)
    assert selection.workloads[0].axes == {"batch": 64}
    assert selection.covered_share == pytest.approx(10_000 / 11_000, abs=1e-4)


def test_a_representative_carries_the_calls_of_its_neighbours_by_class() -> None:
    selection = select_workloads([seen(8, 5.0, chat=5.0), seen(9, 3.0, coding=3.0), seen(64, 0.5)], keep=1)
    public = selection.workloads[0]
    assert public.axes == {"batch": 8}
    assert public.calls_per_hour == 8.0
    assert public.calls_per_hour_by_class == {"chat": 5.0, "coding": 3.0}


def test_equal_shapes_become_one_workload() -> None:
    selection = select_workloads([seen(8, 5.0), seen(8, 3.0)], keep=4)
    (public,) = [workload for workload in selection.workloads if not workload.is_hidden]
    assert public.calls_per_hour == 8.0


def test_hidden_workloads_come_from_the_rest_of_the_traffic() -> None:
    workloads = [seen(2**i, calls=2.0**-i) for i in range(10)]
    selection = select_workloads(workloads, keep=3)
    hidden = {workload.axes["batch"] for workload in selection.workloads if workload.is_hidden}
    assert len(hidden) == 4
    assert hidden <= {2**i for i in range(3, 10)}
    assert max(hidden) / min(hidden) == 2**6


def test_neighbours_are_hidden_where_traffic_has_one_shape() -> None:
    selection = select_workloads([seen(8, 1.0)], keep=4)
    assert [workload.axes for workload in selection.workloads if workload.is_hidden] == [{"batch": 9}]


def test_distance_is_the_largest_log_ratio() -> None:
    assert distance({"a": 2, "b": 8}, {"a": 4, "b": 8}) == pytest.approx(math.log(2))
