"""Counters by an ncu that is a script, around the real runner in a real sandbox, and Triton's interpreter for a GPU."""

from pathlib import Path

import pytest
from fake_watcher import fake_program, missing_program
from judge_tasks import RMSNORM, SANDBOX

from candidates.candidate import Candidate, LanguageName
from candidates.device import Gpu
from candidates.gpu_counters import WorkloadCounters
from candidates.gpu_profiler import GpuProfiler, NotCounted, heaviest_public
from candidates.judge.judge import GpuBench
from candidates.judge.python_runner import INTERPRETED
from candidates.judge.watcher import Program
from candidates.task import Workload
from tests.candidates.judge.test_interpreted import BLOCK, HONEST
from tests.candidates.test_gpu_counters import OUTPUT

pytest.importorskip("triton", reason="Triton is not installed")

BENCH = GpuBench(gpu=Gpu(uuid="GPU-00000000-0000-0000-0000-000000000000", architecture="sm_90"), sandbox=SANDBOX)
NO_PERMISSION = (
    "==PROF== Connected to process 7 (/usr/bin/python3)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0.\n"
)


def count(program: Program, source: str = HONEST) -> WorkloadCounters | NotCounted:
    candidate = Candidate(language=LanguageName.TRITON, source=source, launch_parameters={"BLOCK": BLOCK})
    return GpuProfiler(BENCH, program=program, mode=INTERPRETED).count(RMSNORM, candidate, b"")


def test_counters_are_of_the_workload_that_moves_most_bytes(tmp_path: Path) -> None:
    body = f"""
assert options["--profile-from-start"] == "off"
assert "--csv" in options
assert '"has_guards": true' in pathlib.Path("/scratch/call.json").read_text()
status = run()
log.write_text({OUTPUT!r})
sys.exit(status)
"""
    counted = count(fake_program(tmp_path, "ncu", body))
    assert isinstance(counted, WorkloadCounters), counted
    assert counted.workload == "rows=33"
    assert [kernel.kernel for kernel in counted.kernels] == ["rows_of(const float *, float *)", "other"]


def test_a_rare_large_call_counts_for_less_than_a_frequent_one() -> None:
    workloads = (
        Workload(axes={"rows": 64}, calls_per_hour=1.0),
        Workload(axes={"rows": 8}, calls_per_hour=60.0),
        Workload(axes={"rows": 4096}, calls_per_hour=60.0, is_hidden=True),
    )
    assert heaviest_public(RMSNORM.model_copy(update={"workloads": workloads})).name == "rows=8"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"status = run()\nlog.write_text({NO_PERMISSION!r})\nsys.exit(status)", "NVreg_RestrictProfiling"),
        # It may also end what it is not let at.
        (f"log.write_text({NO_PERMISSION!r})\nsys.exit(1)", "NVreg_RestrictProfiling"),
        ("status = run()\nlog.write_text('==WARNING== No kernels were profiled.\\n')\nsys.exit(status)", "no launch"),
        ("sys.exit(run())", "wrote no report"),
        ("sys.exit(9)", "under ncu the runner ended"),
    ],
    ids=["no permission", "no permission, and ended", "nothing seen", "no report", "no start"],
)
def test_what_ncu_cannot_do_is_told(tmp_path: Path, body: str, why: str) -> None:
    counted = count(fake_program(tmp_path, "ncu", body))
    assert isinstance(counted, NotCounted)
    assert why in counted.why


def test_a_missing_ncu_is_told_with_where_to_have_it() -> None:
    assert count(missing_program("ncu")) == NotCounted(why="no ncu in the sandbox: install it")


def test_a_kernel_that_dies_under_ncu_has_no_counters(tmp_path: Path) -> None:
    dying = HONEST.replace("    _rows[", "    raise ValueError('not here')\n    _rows[")
    counted = count(fake_program(tmp_path, "ncu", "sys.exit(run())"), dying)
    assert isinstance(counted, NotCounted)
    assert "under ncu the runner ended" in counted.why


def test_a_hostile_table_is_bounded(tmp_path: Path) -> None:
    spoiling = HONEST.replace(
        "    _rows[", "    open('/scratch/watcher.log', 'w').write('\"ID\",\"Metric Value\"\\n' * 99999)\n    _rows["
    )
    assert isinstance(count(fake_program(tmp_path, "ncu", "sys.exit(run())"), spoiling), NotCounted)
