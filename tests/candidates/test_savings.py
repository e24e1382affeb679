import pytest

from candidates.measurement import Interval
from candidates.promotion import Gate
from candidates.run import BuildReport, RunReport
from candidates.savings import savings_of
from tests.candidates.serving_build.nights import REPLAY
from tests.candidates.test_promotion import FIGURES

PASSED = Gate(name="faster end to end", passed=True, figure="2", bound="above 1")


def report(*gates: Gate, **changes: object) -> RunReport:
    measured = FIGURES.model_copy(update={"speedup": 2.0, "speedup_interval": Interval(0.8, 4.0)})
    return RunReport(
        run_id="run-1",
        replay=REPLAY.report,
        coverage=0.7,
        rank_correlation={},
        hot_ops=(),
        build=BuildReport(id="b" * 64, path="/b", kernels=1, live=False, gates=gates),
        end_to_end=measured,
        spend_usd=0.0,
        wall_s=1.0,
    ).model_copy(update=changes)


def test_what_the_speedup_leaves_over_of_the_busy_hours_is_saved() -> None:
    savings = savings_of(report(PASSED))
    assert savings is not None
    assert savings.busy_hours == 12  # half of a day
    assert savings.saved_hours == 6
    assert savings.interval == pytest.approx((-3, 9))  # it may turn out slower
    assert savings.usd(3.5) == 21


def test_a_build_that_did_not_pass_or_was_not_measured_saves_nothing() -> None:
    assert savings_of(report()) is None
    assert savings_of(report(PASSED, PASSED.model_copy(update={"passed": False}))) is None
    assert savings_of(report(PASSED, build=None)) is None
    assert savings_of(report(PASSED, end_to_end=None)) is None
