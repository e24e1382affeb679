"""A kernel is judged in a container as it is under bubblewrap."""

from pathlib import Path

import pytest
from judge_tasks import RMSNORM, judge_source
from own_engine import OwnEngine

from candidates.builder import Builder
from candidates.candidate import LanguageName
from candidates.judge.judge import Judge
from candidates.languages.cpp import CppLanguage
from candidates.verdict import Accepted, Reason, Rejected, Verdict

RIGHT = """
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int i = 0; i < 576; ++i) sum += (double)x[row * 576 + i] * x[row * 576 + i];
        const double scale = 1 / std::sqrt(sum / 576 + 1e-5);
        for (int i = 0; i < 576; ++i) y[row * 576 + i] = x[row * 576 + i] * scale * weight[i];
    }
}
"""


@pytest.fixture(scope="module")
def judged(docker_engine: OwnEngine, tmp_path_factory: pytest.TempPathFactory):
    sandbox = docker_engine.sandbox()
    cache: Path = tmp_path_factory.mktemp("cache")
    builder = Builder(sandbox, {LanguageName.CPP: CppLanguage()}, slots=1)
    judge = Judge(sandbox, call_limit_s=2.0, cache_folder=cache)

    def judged(source: str) -> Verdict:
        return judge_source(RMSNORM, source, builder=builder, judge=judge)

    return judged


def test_a_right_kernel_is_accepted(judged) -> None:
    assert isinstance(judged(RIGHT), Accepted)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param(RIGHT.replace("1e-5", "1e-2"), Reason.WRONG_VALUES, id="wrong"),
        pytest.param(RIGHT.replace("rows; ++row", "rows - 1; ++row"), Reason.OUTPUT_NOT_WRITTEN, id="a row missing"),
        pytest.param(RIGHT.replace("double sum", 'for (;;) asm(""); double sum'), Reason.TIMED_OUT, id="endless"),
        pytest.param(RIGHT.replace("double sum", "*(volatile int*)8 = 1; double sum"), Reason.CRASHED, id="crash"),
        pytest.param("syntax error", Reason.BUILD_FAILED, id="no C++"),
    ],
)
def test_others_are_rejected(judged, source: str, reason: Reason) -> None:
    verdict = judged(source)
    assert isinstance(verdict, Rejected)
    assert verdict.reason is reason
