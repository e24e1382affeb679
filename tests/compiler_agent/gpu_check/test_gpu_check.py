"""The check's own logic, its children on a fake GPU: nothing that fails ends it, and its budget holds."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from candidates.candidate import LanguageName
from candidates.gpu_fingerprint import fingerprint_gpu
from candidates.measurement import Decision, Interval, Measurement, Stage
from candidates.verdict import Accepted, Evidence, EvidenceKind, NeedsDevice, Reason, Rejected, Verdict
from compiler_agent.commands.gpu_check import print_document
from compiler_agent.gpu_check.cases import CASES, Case
from compiler_agent.gpu_check.check import Court, GpuCheck, NoGpu
from compiler_agent.gpu_check.children import ChildEnd, ChildEnding, run_child, run_sanitized
from compiler_agent.gpu_check.results import (
    CaseAnswer,
    CaseOutcome,
    CasesJob,
    CeilingsAnswer,
    CeilingsJob,
    FactsAnswer,
    FactsJob,
    GpuDocument,
    Job,
    OpAnswer,
    OpJob,
)
from compiler_agent.main import run_command
from compiler_agent.outcome import ExitCode
from kernel_sandbox.sandbox import SandboxError
from tests.compiler_agent.gpu_check.fake_contests import CEILINGS
from tests.fake_gpu import FACTS

FAKE_CHILD = (sys.executable, "-m", "tests.compiler_agent.gpu_check.fake_child")


def _op_job(name: str, rows: tuple[int, ...], limit_s: float = 30.0) -> OpJob:
    return OpJob(uuid=None, op=name, rows=rows, seed=1, ceilings=CEILINGS, limit_s=limit_s)


def test_a_child_answers_in_lines_whatever_libraries_print() -> None:
    ended = run_child(_op_job("swiglu", (1, 32)), 60.0, FAKE_CHILD)
    assert ended.ending is ChildEnding.DONE, ended.log
    assert [answer.measured[0].rows for answer in ended.answers if isinstance(answer, OpAnswer)] == [1, 32]
    assert "libraries print where they like" in ended.log


def test_a_fault_ends_the_child_and_leaves_what_it_had_finished() -> None:
    ended = run_child(_op_job("softmax", (1, 32, 2048)), 60.0, FAKE_CHILD)
    assert ended.ending is ChildEnding.DEVICE_FAULT, ended.log
    assert len(ended.answers) == 1
    assert "the device faulted: an illegal memory access" in ended.log


@pytest.mark.slow
def test_a_child_that_takes_too_long_is_ended() -> None:
    began_s = time.monotonic()
    ended = run_child(_op_job("slow", (1, 32)), 8.0, FAKE_CHILD)
    assert ended.ending is ChildEnding.OUT_OF_TIME
    assert len(ended.answers) == 1
    assert time.monotonic() - began_s < 30  # the child would sleep a minute


def test_a_child_without_a_gpu_says_so() -> None:
    ended = run_child(FactsJob(uuid="GPU-none"), 60.0, FAKE_CHILD)
    assert ended.ending is ChildEnding.NO_DEVICE
    assert "no GPU that torch can use" in ended.log


def _answer(job: Job, limit_s: float) -> ChildEnd:
    """A child on a perfect machine."""
    match job:
        case FactsJob():
            answer: Any = FactsAnswer(device=dataclasses.asdict(FACTS), fingerprint=fingerprint_gpu(FACTS, "nvcc"))
        case CeilingsJob():
            answer = CeilingsAnswer(ceilings=CEILINGS)
        case CasesJob():
            return _run_cases(job)
        case OpJob():
            return run_child(job, limit_s, FAKE_CHILD)
    return ChildEnd(ending=ChildEnding.DONE, answers=(answer,), log="")


def _run_cases(job: CasesJob) -> ChildEnd:
    answers = []
    for file in job.artifacts:
        due = next(case for case in CASES if case.file == file).on_device
        if "device_fault" in due:
            return ChildEnd(ending=ChildEnding.DEVICE_FAULT, answers=tuple(answers), log="the device faulted: trap")
        answers.append(CaseAnswer(case=file, found=min(due)))
    return ChildEnd(ending=ChildEnding.DONE, answers=tuple(answers), log="")


def _verdict(case: Case) -> Verdict:
    found = min(case.judged)
    if found == "accepted":
        return Accepted(evidence=EvidenceKind.INTERPRETED, seed=1, calls_checked=2, worst_error_in_bounds=0.1)
    return Rejected(reason=Reason(found), workload=None, evidence=Evidence(message="due"), seed=1)


def _measured(case: Case) -> Measurement:
    return Measurement(
        stage=Stage.RACE,
        device_id="cuda-0123456789ab",
        threads=1,
        workloads=(),
        traffic_weighted_speedup=1.5,
        interval=Interval(1.4, 1.6),
        decision=Decision.WIN,
        wall_s=1.0,
    )


def _check(
    run: Callable[[Job, float], ChildEnd] = _answer,
    judge: Callable[[Case], Verdict] = _verdict,
    build: Callable[[Case], bytes] = lambda case: b"x",
    ops: tuple[str, ...] = (),
    budget_s: float = 300.0,
    said: list[str] | None = None,
    seed: int = 1,
    sanitize: Callable[[Job, float], str] | None = None,
    race: Callable[[Case], Measurement | Rejected] = _measured,
) -> GpuDocument:
    return GpuCheck(
        run_child=run,
        open_court=lambda facts: Court(
            build=build, judge=lambda case, built: judge(case), race=lambda case, built, ceilings: race(case)
        ),
        ops=dict.fromkeys(ops, (1, 32)),
        uuid=None,
        seed=seed,
        say=(said if said is not None else []).append,
        budget_s=budget_s,
        sanitize=sanitize,
    ).run()


def test_a_failing_op_is_reported_and_ends_nothing() -> None:
    document = _check(ops=("swiglu", "rope", "softmax", "gemv"))
    assert {(op.op, op.rows) for op in document.ops} == {("swiglu", 1), ("swiglu", 32), ("softmax", 1)}
    missing = {(op.op, op.rows): op for op in document.ops_without_times}
    assert {key: op.why for key, op in missing.items()} == {
        ("rope", 1): "wrong",
        ("rope", 32): "wrong",
        ("softmax", 32): "device_fault",
        ("gemv", 1): "failed",
        ("gemv", 32): "failed",
    }
    assert "illegal memory access" in missing["softmax", 32].detail
    assert "no such instruction" in missing["gemv", 1].detail
    assert not document.is_clean


def test_a_perfect_machine_is_clean_and_its_document_is_json() -> None:
    document = _check(ops=("swiglu",))
    assert document.is_clean, document
    assert GpuDocument.model_validate_json(document.model_dump_json()) == document
    shown = document.model_dump(mode="json")
    assert {"device", "ceilings", "correctness", "attacks", "ops"} <= shown.keys()
    assert {"op", "rows", "dtype", "eager_us", "compile_us", "ours_us", "share_of_floor"} <= shown["ops"][0].keys()
    assert {case["language"] for case in shown["correctness"]} == {"triton", "cuda"}
    assert len(shown["attacks"]) >= 6
    print_document(document)


def test_the_uuid_that_was_found_is_the_one_that_is_used() -> None:
    used: set[str | None] = set()

    def run(job: Job, limit_s: float) -> ChildEnd:
        if not isinstance(job, FactsJob):
            used.add(job.uuid)
        return _answer(job, limit_s)

    _check(run)
    assert used == {FACTS.uuid}


def test_kernels_that_fault_cost_one_process_each() -> None:
    jobs: list[CasesJob] = []

    def run(job: Job, limit_s: float) -> ChildEnd:
        if isinstance(job, CasesJob):
            jobs.append(job)
        return _answer(job, limit_s)

    document = _check(run)
    assert len(jobs) == 3
    found = {case.name: case.found for case in document.correctness if case.where == "device"}
    assert found["illegal_address"] == found["no_launch"] == "device_fault"
    assert found["honest"] == "right"


def test_what_a_sanitizer_finds_is_compared_with_what_is_due(tmp_path: Path) -> None:
    program = tmp_path / "compute-sanitizer"
    program.write_text(
        "#!/bin/sh\n"
        'test "$PYTORCH_NO_CUDA_MEMORY_CACHING" = 1 || exit 1\n'
        'read job\ncase "$job" in *writes_beyond*) errors="========= Invalid __global__ write of size 4 bytes";; esac\n'
        'test -n "$errors" && count=1 || count=0\n'
        'printf "========= COMPUTE-SANITIZER\\n$errors\\n========= ERROR SUMMARY: $count errors\\n" > "$4"\n'
    )
    program.chmod(0o755)

    def sanitize(job: Job, limit_s: float) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
            return run_sanitized(job, limit_s)

    document = _check(sanitize=sanitize)
    found = {
        case.name: (case.found, case.outcome)
        for case in (*document.correctness, *document.attacks)
        if case.where == "sanitizer"
    }
    assert found == {
        "honest": ("clean", CaseOutcome.AS_EXPECTED),
        "writes_beyond": ("memory_error", CaseOutcome.AS_EXPECTED),
    }


def test_what_is_right_is_raced_and_a_race_that_fails_ends_nothing() -> None:
    rejected = Rejected(reason=Reason.AMORTISED, workload=None, evidence=Evidence(message="in batches"), seed=1)

    def race(case: Case) -> Measurement | Rejected:
        if case.language is LanguageName.CUDA:
            raise SandboxError("no sandbox that shows this GPU")
        return rejected

    raced = {case.language: case for case in _check(race=race).correctness if case.where == "race"}
    assert (raced["triton"].found, raced["triton"].outcome) == ("rejected", CaseOutcome.UNEXPECTED)
    assert (raced["cuda"].found, raced["cuda"].outcome) == ("nothing", CaseOutcome.NOT_RUN)


def test_without_a_sanitizer_its_cases_are_not_run() -> None:
    results = [case for case in _check().correctness if case.where == "sanitizer"]
    assert [case.outcome for case in results] == [CaseOutcome.NOT_RUN]


def test_a_judge_that_cannot_run_a_kernel_is_no_surprise() -> None:
    document = _check(judge=lambda case: NeedsDevice(target="x", note="nothing emulates CUDA"))
    outcomes = {case.outcome for case in (*document.correctness, *document.attacks) if case.where == "judge"}
    assert outcomes == {CaseOutcome.NOT_RUN}


def test_an_accepted_cheat_is_unexpected() -> None:
    honest = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=2, worst_error_in_bounds=0.1)
    document = _check(judge=lambda case: honest)
    assert {case.outcome for case in document.attacks if case.where == "judge"} == {CaseOutcome.UNEXPECTED}
    assert not document.is_clean


def test_a_missing_compiler_leaves_the_other_kernels() -> None:
    def build(case: Case) -> bytes:
        if case.file.endswith(".cu"):
            raise SandboxError("no CUDA compiler")
        return b"x"

    document = _check(build=build)
    by_language = {
        (case.language, case.where): case.outcome for case in document.correctness if case.name.startswith("honest")
    }
    assert by_language["triton", "judge"] is CaseOutcome.AS_EXPECTED
    assert by_language["cuda", "judge"] is CaseOutcome.NOT_RUN
    assert by_language["cuda", "device"] is CaseOutcome.NOT_RUN


def test_a_judge_that_fails_leaves_the_kernel_to_the_device() -> None:
    def judge(case: Case) -> Verdict:
        raise SandboxError("no sandbox that shows this GPU")

    document = _check(judge=judge)
    honest = {(case.language, case.where): case.outcome for case in document.correctness if "honest" in case.name}
    assert honest["cuda", "judge"] is CaseOutcome.NOT_RUN
    assert honest["cuda", "device"] is CaseOutcome.AS_EXPECTED


def test_the_order_of_ops_follows_the_seed() -> None:
    orders = set()
    for seed in range(6):
        said: list[str] = []

        def run(job: Job, limit_s: float) -> ChildEnd:
            if isinstance(job, OpJob):
                return ChildEnd(ending=ChildEnding.FAILED, answers=(), log="")
            return _answer(job, limit_s)

        _check(run, ops=("a", "b", "c"), said=said, seed=seed)
        orders.add(tuple(line for line in said if line.startswith("timing")))
    assert len(orders) > 1


def test_the_budget_holds_and_says_what_was_left_out() -> None:
    limits: list[float] = []

    def run(job: Job, limit_s: float) -> ChildEnd:
        if isinstance(job, OpJob):
            limits.append(limit_s)
        return _answer(job, limit_s)

    document = _check(run, ops=("swiglu", "rope"), budget_s=0.0)
    assert limits == []
    assert {op.why for op in document.ops_without_times} == {"no_time_left"}
    assert all(case.outcome is CaseOutcome.NOT_RUN for case in (*document.correctness, *document.attacks))


def test_limits_of_children_fit_the_budget() -> None:
    limits: list[float] = []

    def run(job: Job, limit_s: float) -> ChildEnd:
        if isinstance(job, OpJob):
            limits.append(limit_s)
            return ChildEnd(ending=ChildEnding.FAILED, answers=(), log="")
        return _answer(job, limit_s)

    _check(run, ops=("a", "b", "c", "d"), budget_s=200.0)
    assert len(limits) == 4
    assert sum(limits[:1]) <= 200 / 4 + 1


def test_without_ceilings_no_op_is_timed() -> None:
    def run(job: Job, limit_s: float) -> ChildEnd:
        if isinstance(job, CeilingsJob):
            return ChildEnd(ending=ChildEnding.DEVICE_FAULT, answers=(), log="the device faulted: trap")
        return _answer(job, limit_s)

    document = _check(run, ops=("swiglu",))
    assert document.ceilings is None
    assert not document.is_clean
    assert "trap" in document.notes[0]


def test_a_process_that_sees_no_gpu_is_the_machines_fault() -> None:
    def run(job: Job, limit_s: float) -> ChildEnd:
        return ChildEnd(ending=ChildEnding.NO_DEVICE, answers=(), log="no GPU that torch can use: see nvidia-smi -L")

    with pytest.raises(NoGpu, match="nvidia-smi -L"):
        _check(run)


def test_without_a_gpu_the_command_says_what_is_missing(capfd: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU on this machine")
    assert run_command(["gpu-check", "--json", "--no-keep"]) is ExitCode.USER_FAULT
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "CUDA" in captured.err or "no NVIDIA GPU" in captured.err
