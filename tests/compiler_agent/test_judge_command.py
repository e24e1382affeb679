"""`compiler-agent judge` on a real kernel: what it prints, and what sanitizers add."""

import json
from pathlib import Path

import pytest

from candidates.error_bound import derive_error_bound
from candidates.ledger.ledger import Ledger
from candidates.task import (
    ElementType,
    ErrorBound,
    InputRole,
    InputSpec,
    KernelTask,
    SiteLevel,
    TensorSpec,
    Workload,
)
from compiler_agent.main import run_command

TASK = KernelTask(
    op="double",
    site="tests.double",
    level=SiteLevel.LEAF,
    reference="def reference(x):\n    return x * 2\n",
    inputs=(
        InputSpec(
            name="x",
            element_type=ElementType.FLOAT32,
            shape=("rows", 16),
            dim_order=(0, 1),
            role=InputRole.ACTIVATION,
        ),
    ),
    outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 16), dim_order=(0, 1)),),
    axes=("rows",),
    workloads=(Workload(axes={"rows": 4}, calls_per_hour=1.0), Workload(axes={"rows": 9}, calls_per_hour=1.0)),
    error_bound=ErrorBound(scaled_error=0.0),
    device_id="cpu-test",
)
SIGNATURE = '#include <cstdint>\nextern "C" void kernel(const float* x, float* y, int64_t rows) '
RIGHT = SIGNATURE + "{ for (int64_t i = 0; i < rows * 16; ++i) y[i] = x[i] * 2; }\n"
# Right, and it reads one element before its input, which no result shows.
READS_TOO_MUCH = RIGHT.replace("{ for", "{ volatile float before = x[-1];\n for", 1)


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    task = TASK.model_copy(update={"error_bound": derive_error_bound(TASK)})
    Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}").put_task(task)

    def judge_source(source: str, *options: str) -> tuple[int, str]:
        (tmp_path / "kernel.cpp").write_text(source)
        code = run_command(("judge", task.id[:8], str(tmp_path / "kernel.cpp"), *options))
        return code, capsys.readouterr().out

    return judge_source


def test_says_that_sanitizers_found_nothing_and_how_long_they_took(judge) -> None:
    code, out = judge(RIGHT)
    assert code == 0
    assert "accepted" in out
    assert "sanitizers found nothing on rows=1; rows=3; rows=4; rows=9" in " ".join(out.split())
    document = json.loads(judge(RIGHT, "--json")[1])
    assert document["verdict"]["outcome"] == "accepted"
    assert document["sanitized"]["shapes"] == ["rows=1", "rows=3", "rows=4", "rows=9"]


def test_sanitizers_reject_what_only_they_see(judge) -> None:
    code, out = judge(READS_TOO_MUCH)
    assert code == 1
    assert "memory_error" in out
    assert "reads 4 bytes, 4 bytes before the start of x (64 bytes) at candidate.cpp:2" in " ".join(out.split())
    assert "ERROR: AddressSanitizer" in out


def test_sanitizers_can_be_left_out(judge) -> None:
    code, out = judge(READS_TOO_MUCH, "--no-sanitize", "--json")
    assert code == 0
    assert json.loads(out)["sanitized"] is None
