"""The test that a pull request brings: it passes for the kernel that it came with, and fails when that is broken."""

import subprocess
import sys
from pathlib import Path

import pytest

from candidates.ceilings import fingerprint_device
from candidates.ledger.wins import proposed_of
from candidates.pull_requests.draft import draft_pull_request
from candidates.pull_requests.generated_test import NoTest
from candidates.pull_requests.win import Grouping
from tests.candidates.pull_requests.past_runs import LINEAR_SOURCE, PACKED_LINEAR, RMSNORM_SOURCE, Kernel, PastRuns
from tests.judge_tasks import INCLUDES, STATE_TASK, input_spec, make_task, output_spec

STATE_SOURCE = (
    INCLUDES
    + """
extern "C" void kernel(const float* x, float* total, float* peak, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    float most = 0;
    for (int i = 0; i < 64; ++i) {
      total[r * 64 + i] += x[r * 64 + i];
      most = std::max(most, std::fabs(total[r * 64 + i]));
    }
    peak[r] = most;
  }
}
"""
)
TRITON_SOURCE = """
import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, y_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < size, other=0.0)
    tl.store(y_ptr + at, x * 3 + 1, mask=at < size)


def kernel(x, y, rows):
    grid = (triton.cdiv(x.numel(), LAUNCH_BLOCK),)
    _scale[grid](x, y, x.numel(), BLOCK=LAUNCH_BLOCK)
"""
TRITON = Kernel(
    task=make_task(
        "scale",
        "def reference(x):\n    return x * 3 + 1\n",
        [input_spec("x", ("rows", 64))],
        [output_spec("y", ("rows", 64))],
    ),
    source=TRITON_SOURCE,
    candidate={"language": "triton", "launch_parameters": {"BLOCK": 128}},
)
STATE = Kernel(task=STATE_TASK, source=STATE_SOURCE)
NORM = Kernel()


def written(folder: Path, kernel: Kernel) -> Path:
    """The folder of the pull request's files, as a checkout of the target repository has them."""
    runs = PastRuns(folder / "home")
    runs.add("run", kernel)
    (proposed,) = proposed_of(runs.ledger, "run", Grouping.PROMOTION, ())
    change = draft_pull_request(proposed, "kernels").change
    target = folder / "repository" / change.folder
    target.mkdir(parents=True)
    for name, content in change.files.items():
        (target / name).write_bytes(content)
    return target


def run_tests(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Nothing of this project is on the path."""
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(target), *options]
    return subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kernel", [NORM, PACKED_LINEAR, STATE, TRITON], ids=["norm", "packed", "state", "triton"])
def test_the_generated_test_passes_for_its_kernel(tmp_path, kernel):
    ran = run_tests(written(tmp_path, kernel), "--benchmark-disable")
    assert ran.returncode == 0, ran.stdout
    assert "passed" in ran.stdout
    assert ("skipped" in ran.stdout) == (kernel is TRITON)  # its speed needs a GPU


# The kernel, what of its source is replaced by what, and what the test says of it.
BREAKAGES = {
    "wrong_epsilon": (NORM, "1e-5", "1e-3",
        "on normal inputs: y: element"),
    "no_weight": (NORM, " * weight[i];", ";",
        "on normal inputs: y: element"),
    "last_row_left_out": (NORM, "r < rows", "r < rows - 1",
        "not every element of y was written"),
    "last_column_left_out": (NORM, "for (int i = 0; i < 576; ++i) y", "for (int i = 0; i < 575; ++i) y",
        "not every element of y was written"),
    "writes_beyond_its_output": (NORM, "double sum = 0;", "double sum = 0; y[(r + 1) * 576] = 1;",
        "wrote to y or beyond it"),
    "writes_to_its_input": (NORM, "double sum = 0;", "double sum = 0; const_cast<float*>(x)[r * 576] += 1;",
        "wrote to x or beyond it"),
    "low_precision": (NORM, "const float scale =", "const float scale = (1 + 1e-4f) *",
        "on normal inputs: y: element"),
    "another_answer_each_time": (NORM, "double sum = 0;", "static double sum = 0; sum *= 1e-7;",
        "two calls on equal inputs differ in y"),
    "right_for_one_row_only": (NORM, "r < rows", "r < (rows > 8 ? 8 : rows)",
        "not every element of y was written"),
    "wrong_where_rows_are_constant": (NORM, "double sum = 0;", "double sum = x[r * 576] == x[r * 576 + 1] ? 9 : 0;",
        "on constant_rows inputs: y: element"),
    "zeros": (NORM, "x[r * 576 + i] * scale * weight[i]", "0",
        "on normal inputs: y: element"),
    "crashes": (NORM, "double sum = 0;", "double sum = *(volatile double*)8;",
        "the kernel crashed (signal 11)"),
    "does_not_compile": (NORM, "double sum = 0;", "double sum = 0",
        "the kernel does not compile"),
    "another_signature": (NORM, "int64_t rows) {", "int64_t rows, int more) {",
        "the kernel does not"),
    "another_name": (NORM, "void kernel(", "void other(",
        "the kernel does not load"),
    "packed_wrongly": (PACKED_LINEAR, "= weight[o * 64 + i]", "= weight[i]",
        "on normal inputs: y: element"),
    "state_left_as_it_was": (STATE, "total[r * 64 + i] += x[r * 64 + i];", "",
        "on normal inputs: peak: element"),
    "triton_wrong": (TRITON, "x * 3 + 1, ", "x * 3, ",
        "on normal inputs: y: element"),
    "triton_without_its_mask": (TRITON, "x * 3 + 1, mask=at < size", "x * 3 + 1",
        "wrote to y or beyond it"),
    "triton_that_raises": (TRITON, "    grid =", "    raise ValueError\n    grid =",
        "ValueError"),
    "state_updated_twice": (STATE, "+= x[r * 64 + i]", "+= 2 * x[r * 64 + i]",
        "on normal inputs: peak: element"),
}  # fmt: skip


_SOON = ("wrong_epsilon", "last_row_left_out", "writes_to_its_input", "crashes", "does_not_compile", "packed_wrongly",
         "state_left_as_it_was", "triton_wrong")  # fmt: skip


@pytest.mark.parametrize(
    "breakage", [name if name in _SOON else pytest.param(name, marks=pytest.mark.slow) for name in BREAKAGES]
)
def test_generated_tests_catch_a_broken_kernel(tmp_path, breakage):
    kernel, right, wrong, due_words = BREAKAGES[breakage]
    target = written(tmp_path, kernel)
    (source,) = (path for path in target.iterdir() if path.suffix in (".cpp", ".py") and path.stem[:5] != "test_")
    text = source.read_text()
    assert right in text
    source.write_text(text.replace(right, wrong))
    ran = run_tests(target, "--benchmark-disable", "-k", "agrees_with_pytorch")
    assert ran.returncode == 1, ran.stdout
    assert "failed" in ran.stdout
    assert due_words in ran.stdout


def test_speed_is_compared_where_pytest_benchmark_is_installed(tmp_path):
    target = written(tmp_path, NORM)
    ran = run_tests(target, "-k", "test_speed", "--benchmark-min-rounds=3", "--benchmark-max-time=0.1")
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout


@pytest.mark.parametrize("is_here", [True, False], ids=["where_it_was_measured", "and_elsewhere_only_reported"])
def test_a_kernel_that_became_slow_is_noticed(tmp_path, is_here):
    target = written(tmp_path, NORM)
    (source,), (generated,) = target.glob("*.cpp"), target.glob("test_*.py")
    slow = "for (volatile int i = 0; i < 30000000; ++i) {}\n  for (int64_t r = 0;"
    source.write_text(source.read_text().replace("for (int64_t r = 0;", slow, 1))
    device = f" 'device': {fingerprint_device().model!r}"
    assert device in generated.read_text()
    if not is_here:
        another_stepping = f"{device[:-1]}1'"
        generated.write_text(generated.read_text().replace(device, another_stepping))
    ran = run_tests(target, "-k", "test_speed", "--benchmark-min-rounds=1", "--benchmark-max-time=0.1")
    assert ran.returncode == (1 if is_here else 0), ran.stdout
    assert ("times as fast as PyTorch eager" in ran.stdout) == is_here
    assert ("1 failed" if is_here else "3 passed") in ran.stdout


def test_without_pytest_benchmark_speed_is_skipped(tmp_path):
    (generated,) = written(tmp_path, NORM).glob("test_*.py")
    hidden = "import sys; sys.modules['pytest_benchmark'] = None\n"
    (generated.parent / "conftest.py").write_text(hidden)
    ran = run_tests(generated.parent, "-p", "no:benchmark", "-rs", "-k", "test_speed")
    assert ran.returncode == 0, ran.stdout
    assert "pytest-benchmark is not installed" in ran.stdout


def test_kernels_that_no_test_can_be_written_for_are_not_proposed(tmp_path):
    runs = PastRuns(tmp_path)
    runs.add("run", Kernel(candidate={"language": "cuda"}))
    (proposed,) = proposed_of(runs.ledger, "run", Grouping.PROMOTION, ())
    with pytest.raises(NoTest, match="cuda"):
        draft_pull_request(proposed, "kernels")


def test_hidden_workloads_are_in_no_file(tmp_path):
    target = written(tmp_path, NORM)
    assert all("rows=5" not in path.read_text() for path in target.iterdir())
    (generated,) = target.glob("test_*.py")
    assert "'rows': 5}" not in generated.read_text()


@pytest.mark.parametrize("source", [RMSNORM_SOURCE, LINEAR_SOURCE])
def test_the_source_is_what_was_judged_byte_for_byte(tmp_path, source):
    kernel = NORM if source is RMSNORM_SOURCE else PACKED_LINEAR
    (file,) = written(tmp_path, kernel).glob("*.cpp")
    assert file.read_bytes() == source.encode()
