"""Kernels under a compute-sanitizer that is a script, with Triton's interpreter in place of a GPU, in a real sandbox.

What is tried is everything around the tool: that it is found, watches the real runner, is believed where it may be, and
whose fault each end is. What the tool itself finds is not: no GPU has met it.
"""

from pathlib import Path

import pytest
from fake_watcher import fake_program, missing_program
from judge_tasks import INCLUDES, RMSNORM, SANDBOX
from own_engine import OwnEngine
from test_compute_sanitizer_log import INVALID_WRITE, RACE
from test_honest_kernels import RMSNORM_SOURCE
from test_interpreted import BLOCK, BODY, HEAD, HONEST

from candidates.candidate import Candidate, LanguageName
from candidates.device import Gpu
from candidates.judge.gpu_sanitizers import TOOLS, GpuSanitizers
from candidates.judge.judge import GpuBench
from candidates.judge.python_runner import INTERPRETED
from candidates.judge.sanitizers import Sanitized, Sanitizers, SanitizersUnavailable
from candidates.judge.sanitizers_by_language import SanitizersByLanguage
from candidates.judge.watcher import Program
from candidates.languages.cpp import CppLanguage
from candidates.verdict import Reason, Rejected

pytest.importorskip("triton", reason="Triton is not installed")

BENCH = GpuBench(gpu=Gpu(uuid="GPU-00000000-0000-0000-0000-000000000000", architecture="sm_90"), sandbox=SANDBOX)
CLEAN = """
SUMMARY = {"racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}
status = run()
log.write_text("========= COMPUTE-SANITIZER\\n========= " + SUMMARY.get(options["--tool"], "ERROR SUMMARY: 0 errors"))
sys.exit(status)
"""


def _finds(marked: str, tool: str, report: str) -> str:
    """The body of a tool that reports of kernels with these words, and of no others."""
    return f"""
if {marked!r} in kernel and options["--tool"] == {tool!r}:
    run()
    log.write_text({report!r})
    sys.exit(86)
{CLEAN}
"""


def check(program: Program, source: str = HONEST) -> Sanitized | Rejected:
    candidate = Candidate(language=LanguageName.TRITON, source=source, launch_parameters={"BLOCK": BLOCK})
    return GpuSanitizers(BENCH, program=program, mode=INTERPRETED).check(RMSNORM, candidate, b"", seed=7)


def rejection(program: Program, source: str = HONEST) -> Rejected:
    verdict = check(program, source)
    assert isinstance(verdict, Rejected), verdict
    return verdict


def test_a_kernel_that_every_tool_finds_clean_passes(tmp_path: Path) -> None:
    kept = f"""
with open("/scratch/tools", "a") as said:
    said.write(" ".join(sys.argv[1:]) + "\\n")
assert os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
assert '"has_guards": false' in pathlib.Path("/scratch/call.json").read_text()
{CLEAN}
"""
    found = check(fake_program(tmp_path, "compute-sanitizer", kept))
    assert isinstance(found, Sanitized), found
    assert "rows=3" in found.shapes


def test_what_a_tool_finds_is_rejected_with_its_place(tmp_path: Path) -> None:
    verdict = rejection(fake_program(tmp_path, "compute-sanitizer", _finds("def kernel", "memcheck", INVALID_WRITE)))
    assert verdict.reason is Reason.MEMORY_ERROR
    assert "under compute-sanitizer's memcheck: Invalid __global__ write of size 4 bytes" in verdict.evidence.message
    assert "in candidate.cu:13" in verdict.evidence.message
    assert "Address 0x7f2c4ba08000 is out of bounds" in verdict.evidence.log_tail
    assert verdict.seed == 7


def test_a_race_is_found_after_memory_was_clean(tmp_path: Path) -> None:
    verdict = rejection(fake_program(tmp_path, "compute-sanitizer", _finds("def kernel", "racecheck", RACE)))
    assert verdict.reason is Reason.UNDEFINED_BEHAVIOUR
    assert "racecheck: Error: Race reported" in verdict.evidence.message


def test_what_is_also_found_without_the_kernel_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(SanitizersUnavailable, match="without any kernel"):
        check(fake_program(tmp_path, "compute-sanitizer", _finds("", "memcheck", INVALID_WRITE)))


def test_a_missing_tool_is_the_machines_fault() -> None:
    with pytest.raises(SanitizersUnavailable, match="no compute-sanitizer in the sandbox: install it"):
        check(missing_program("compute-sanitizer"))


@pytest.mark.parametrize(
    "body",
    [
        "status = run()\nlog.write_text('========= COMPUTE-SANITIZER\\n')\nsys.exit(status)",
        "sys.exit(run())",
        "log.write_text('========= COMPUTE-SANITIZER\\n========= Error: Device not supported\\n')\nsys.exit(255)",
        # What the real one does where there is no driver.
        "log.write_text('========= COMPUTE-SANITIZER\\n========= Error: Target application terminated before first "
        "instrumented API call\\n')\nsys.exit(255)",
    ],
    ids=["no summary", "no log", "device not supported", "no driver"],
)
def test_a_tool_that_comes_to_no_clean_end_is_no_clean_bill(tmp_path: Path, body: str) -> None:
    with pytest.raises(SanitizersUnavailable, match="GPU-00000000"):
        check(fake_program(tmp_path, "compute-sanitizer", body))


def test_a_kernel_that_dies_under_the_tool_is_rejected_where_it_did(tmp_path: Path) -> None:
    dying = (
        HEAD
        + BODY
        + (
            "def kernel(x, weight, y, rows):\n"
            "    _rows[(rows,)](x, weight, y, BLOCK=LAUNCH_BLOCK, num_warps=4)\n"
            "    if rows == 3:\n        raise ValueError('at three rows')\n"
        )
    )
    verdict = rejection(fake_program(tmp_path, "compute-sanitizer", CLEAN), dying)
    assert verdict.reason is Reason.CRASHED
    assert verdict.workload == "rows=3"
    assert "under compute-sanitizer's memcheck" in verdict.evidence.message


def test_a_kernel_that_kills_its_process_is_rejected(tmp_path: Path) -> None:
    killing = HONEST.replace("    _rows[", "    import os\n    os.kill(os.getpid(), 11)\n    _rows[")
    verdict = rejection(fake_program(tmp_path, "compute-sanitizer", CLEAN), killing)
    assert (verdict.reason, verdict.workload) == (Reason.CRASHED, "rows=1")


def test_a_kernel_that_cannot_be_loaded_is_rejected(tmp_path: Path) -> None:
    verdict = rejection(fake_program(tmp_path, "compute-sanitizer", CLEAN), "import nothing_of_that_name\n" + HONEST)
    assert (verdict.reason, verdict.workload) == (Reason.LOAD_FAILED, None)


@pytest.mark.parametrize(
    "spoil",
    [
        "open('/scratch/watcher.log', 'wb').write(b'\\xff\\x00========= \\x1b[2J' * 100000)",
        "os.path.lexists('/scratch/watcher.log') or os.symlink('/dev/zero', '/scratch/watcher.log')",
        "open('/scratch/watcher.log', 'w').write('========= ERROR SUMMARY: many errors\\n' * 9)",
    ],
    ids=["no text", "a link to no end", "no number"],
)
def test_a_log_that_the_kernel_spoils_is_no_clean_bill(tmp_path: Path, spoil: str) -> None:
    spoiling = HONEST.replace("    _rows[", f"    import os\n    if rows == 3:\n        {spoil}\n    _rows[")
    kept = f"if 'import os' in kernel:\n    sys.exit(run())\n{CLEAN}"
    verdict = rejection(fake_program(tmp_path, "compute-sanitizer", kept), spoiling)
    assert verdict.reason is Reason.BROKE_PROTOCOL
    assert len(verdict.evidence.log_tail) <= 4000


def test_memory_shared_memory_and_barriers_are_watched() -> None:
    assert [tool.value for tool in TOOLS] == ["memcheck", "racecheck", "synccheck"]


def test_a_container_shows_the_tool_and_gives_back_its_report(docker_engine: OwnEngine, tmp_path: Path) -> None:
    bench = GpuBench(gpu=BENCH.gpu, sandbox=docker_engine.sandbox())
    program = fake_program(tmp_path, "compute-sanitizer", _finds("def kernel", "memcheck", INVALID_WRITE))
    candidate = Candidate(language=LanguageName.TRITON, source=HONEST, launch_parameters={"BLOCK": BLOCK})
    verdict = GpuSanitizers(bench, program=program, mode=INTERPRETED).check(RMSNORM, candidate, b"", seed=7)
    assert isinstance(verdict, Rejected), verdict
    assert "in candidate.cu:13" in verdict.evidence.message


def test_who_watches_depends_on_the_language(tmp_path: Path) -> None:
    program = fake_program(tmp_path, "compute-sanitizer", CLEAN)
    gpu = GpuSanitizers(BENCH, program=program, mode=INTERPRETED)
    triton = Candidate(language=LanguageName.TRITON, source=HONEST, launch_parameters={"BLOCK": BLOCK})
    cpp = Candidate(language=LanguageName.CPP, source=INCLUDES + RMSNORM_SOURCE)
    host = Sanitizers(SANDBOX, CppLanguage())
    assert isinstance(SanitizersByLanguage(host, gpu).check(RMSNORM, triton, b""), Sanitized)
    assert isinstance(SanitizersByLanguage(host, None).check(RMSNORM, cpp, b""), Sanitized)
    with pytest.raises(SanitizersUnavailable, match="COMPILER_AGENT_GPU"):
        SanitizersByLanguage(host, None).check(RMSNORM, triton, b"")
