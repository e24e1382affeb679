"""Contests on a fake GPU: what is wrong is not timed, the faster one is found, orders are random, L2 cold or warm."""

import random
import time

import pytest

from compiler_agent.gpu_check.contest import ROUNDS, hold_contest
from compiler_agent.gpu_check.results import Cache, MeasuredOp
from compiler_agent.gpu_check.timing import FEWEST_ROUNDS, Side, forms_of, run_rounds, sample_us
from kernel_sandbox.runners.gpu_device import CaptureFailed, DeviceFault
from tests.compiler_agent.gpu_check.fake_contests import CEILINGS, EXACT, contest, entrant
from tests.fake_gpu import FakeGpu

FAR_S = time.monotonic() + 3600


def _hold(gpu: FakeGpu, *ours: object, **others: object):  # type: ignore[no-untyped-def]
    return hold_contest(gpu, contest(gpu, list(ours), **others), CEILINGS, random.Random(1), FAR_S)  # type: ignore[arg-type]


def test_the_fastest_launch_parameters_win_and_are_measured_cold_and_warm() -> None:
    gpu = FakeGpu()
    held = _hold(
        gpu,
        lambda: entrant(gpu, "ours", 25.0, launch={"BLOCK": 128}),
        lambda: entrant(gpu, "ours", 15.0, launch={"BLOCK": 256}),
    )
    assert held.missing == []
    cold, warm = held.measured
    assert (cold.cache, warm.cache) == (Cache.COLD, Cache.WARM)
    assert warm.launch == cold.launch == {"BLOCK": 256}
    assert warm.speedup_over_best == pytest.approx(2.0)
    assert warm.interval.low <= warm.speedup_over_best <= warm.interval.high
    assert cold.ours_us == pytest.approx(65.0)
    assert cold.compile_us == pytest.approx(80.0)
    assert warm.pairs == ROUNDS


def test_graphs_are_offered_to_all_alike() -> None:
    gpu = FakeGpu(launch_us=50.0)
    held = _hold(
        gpu,
        lambda: entrant(gpu, "ours", 15.0, launches=2),
        compiled=lambda: entrant(gpu, "compile", 30.0, launches=2),
    )
    (_, warm) = held.measured
    # Launched one by one, all of them would wait for the host; ten in a graph share one launch.
    assert warm.forms == {"eager": "graph", "compile": "graph", "ours": "graph"}
    assert (warm.eager_us, warm.ours_us) == (pytest.approx(40.0), pytest.approx(15.0))


def test_the_floor_is_that_of_the_level_that_holds_the_bytes() -> None:
    gpu = FakeGpu()
    cold, warm = _hold(gpu, lambda: entrant(gpu, "ours", 15.0)).measured
    assert cold.floor_us == pytest.approx(1e6 * (1 << 14) / 1e9)
    assert warm.floor_us == pytest.approx(cold.floor_us / 2)
    assert warm.share_of_floor == pytest.approx(warm.floor_us / warm.ours_us)
    assert warm.floor_by == "memory"


def test_a_wrong_kernel_is_not_timed() -> None:
    gpu = FakeGpu()
    held = _hold(gpu, lambda: entrant(gpu, "ours", 1.0, result=EXACT + 0.1))
    assert held.measured == []
    (missing,) = held.missing
    assert missing.why == "wrong"
    assert "of the allowed error" in missing.detail
    assert gpu.flushes == 0


def test_a_kernel_that_writes_nothing_is_wrong() -> None:
    gpu = FakeGpu()
    assert _hold(gpu, lambda: entrant(gpu, "ours", 1.0, work=lambda: None)).missing[0].why == "wrong"


def test_wrong_launch_parameters_leave_the_right_ones() -> None:
    gpu = FakeGpu()
    held = _hold(
        gpu,
        lambda: entrant(gpu, "ours", 1.0, result=EXACT * 2, launch={"BLOCK": 1}),
        lambda: entrant(gpu, "ours", 15.0, launch={"BLOCK": 2}),
    )
    assert [each.launch for each in held.measured] == [{"BLOCK": 2}] * 2
    assert "wrong with {'BLOCK': 1}" in held.notes[0]


def test_without_torch_compile_eager_is_the_baseline() -> None:
    def no_compiler():  # type: ignore[no-untyped-def]
        raise RuntimeError("no C compiler")

    gpu = FakeGpu()
    held = _hold(gpu, lambda: entrant(gpu, "ours", 20.0), compiled=no_compiler)
    assert [each.compile_us for each in held.measured] == [None, None]
    assert held.measured[1].speedup_over_best == pytest.approx(2.0)
    assert "no C compiler" in held.notes[0]


def test_a_fault_ends_the_contest() -> None:
    gpu = FakeGpu()
    with pytest.raises(DeviceFault):
        _hold(gpu, lambda: entrant(gpu, "ours", 1.0, work=lambda: gpu.fault("trap")))


def test_without_time_nothing_is_begun() -> None:
    gpu = FakeGpu()
    held = hold_contest(gpu, contest(gpu, []), CEILINGS, random.Random(1), time.monotonic() - 1)
    assert held.missing[0].why == "no_time_left"


def test_every_round_takes_all_sides_in_an_order_of_its_own() -> None:
    gpu = FakeGpu()
    order: list[str] = []
    sides = [Side(name=name, form="launched", run=lambda name=name: order.append(name)) for name in "abc"]  # type: ignore[misc]
    run_rounds(gpu, sides, Cache.COLD, random.Random(3), rounds=40, deadline_s=FAR_S)
    rounds = ["".join(dict.fromkeys(order[at : at + 9])) for at in range(0, len(order), 9)]
    assert {"".join(sorted(each)) for each in rounds} == {"abc"}
    assert len(set(rounds)) == 6


def test_rounds_end_at_the_deadline_with_enough_for_an_interval() -> None:
    gpu = FakeGpu()
    side = Side(name="a", form="launched", run=lambda: gpu.launch(lambda: None, us=1.0))
    times = run_rounds(gpu, [side], Cache.WARM, random.Random(3), rounds=400, deadline_s=0.0)
    assert len(times[0]) == FEWEST_ROUNDS


def test_cold_finds_nothing_in_l2_and_warm_finds_all() -> None:
    gpu = FakeGpu()
    side = Side(name="a", form="launched", run=lambda: gpu.launch(lambda: None, us=10.0, reads=["x"]))
    assert sample_us(gpu, side, Cache.COLD, 3) == pytest.approx(60.0)
    assert sample_us(gpu, side, Cache.WARM, 3) == pytest.approx(10.0)


def test_what_a_kernel_makes_persist_is_taken_back_before_every_sample() -> None:
    gpu = FakeGpu()
    side = Side(name="a", form="launched", run=lambda: gpu.launch(lambda: None, us=10.0, reads=["x"], persists=True))
    assert [sample_us(gpu, side, Cache.COLD, 1) for _ in range(3)] == [pytest.approx(60.0)] * 3


def test_what_cannot_be_captured_has_one_form() -> None:
    class NoGraphs(FakeGpu):
        def capture(self, call):  # type: ignore[no-untyped-def]
            raise CaptureFailed("operation not permitted when stream is capturing")

    sides, note = forms_of(NoGraphs(), "eager", lambda: None, Cache.WARM)
    assert [side.form for side in sides] == ["launched"]
    assert note == "eager is no CUDA graph: operation not permitted when stream is capturing"


def test_a_measured_op_has_the_fields_of_the_document() -> None:
    gpu = FakeGpu()
    fields = set(MeasuredOp.model_fields)
    assert {"op", "rows", "dtype", "eager_us", "compile_us", "ours_us", "share_of_floor"} <= fields
    assert _hold(gpu, lambda: entrant(gpu, "ours", 15.0)).measured[0].model_dump(mode="json").keys() == fields
