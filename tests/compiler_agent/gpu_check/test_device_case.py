"""Kernels between guards on a fake GPU, and the table of cases through the real compilers and the judge."""

from collections.abc import Callable

import pytest
import torch

from candidates.builder import Builder, CompilerUnavailable
from candidates.candidate import LanguageName
from candidates.judge.judge import Judge
from candidates.languages.cuda import CudaLanguage
from candidates.languages.cuda_toolkit import find_toolkit
from candidates.verdict import Rejected
from compiler_agent.gpu_check.cases import CASES, Case, case_task, judge_result
from compiler_agent.gpu_check.device_case import run_case
from compiler_agent.gpu_check.results import CaseOutcome
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.runners.gpu_device import GUARD_BYTES, DeviceFault
from tests.fake_gpu import FakeGpu

Work = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


def _right(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight)


def _find(work: Work, *, stream: int = 0) -> str:
    gpu = FakeGpu()

    def call(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> None:
        gpu.launch(lambda: work(x, weight, y) and None, us=5.0, stream=stream)

    found = run_case(gpu, call, seed=7)
    assert gpu.free_memory_is_poisoned
    return found.what


def test_an_honest_kernel_is_right_on_whatever_stream() -> None:
    assert _find(_right) == _find(_right, stream=5) == "right"


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda x, weight, y: y[:, -1].fill_(float("nan")), "output_not_written"),
        (lambda x, weight, y: y[3, 3].add_(0.1), "wrong_values"),
        (lambda x, weight, y: x[0, 0].mul_(2.0), "changed_inputs"),
        (lambda x, weight, y: weight[5:6].zero_(), "changed_inputs"),
        (
            lambda x, weight, y: torch.as_strided(y, (1,), (1,), y.storage_offset() + y.numel()).zero_(),
            "wrote_out_of_bounds",
        ),
        (lambda x, weight, y: torch.as_strided(y, (1,), (1,), y.storage_offset() - 1).zero_(), "wrote_out_of_bounds"),
        (
            lambda x, weight, y: torch.as_strided(
                y, (1,), (1,), y.storage_offset() + y.numel() + GUARD_BYTES // 8
            ).zero_(),
            "wrote_out_of_bounds",
        ),
    ],
)
def test_says_what_a_kernel_did(spoil: Work, found: str) -> None:
    def work(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> None:
        _right(x, weight, y)
        spoil(x, weight, y)

    assert _find(work) == found


def test_a_fault_is_raised() -> None:
    gpu = FakeGpu()
    with pytest.raises(DeviceFault, match="illegal"):
        run_case(gpu, lambda x, weight, y: gpu.launch(lambda: gpu.fault("illegal address"), us=1.0), seed=7)


@pytest.mark.parametrize("case", [case for case in CASES if case.language is LanguageName.TRITON], ids=lambda c: c.file)
def test_the_judge_says_of_triton_kernels_what_is_due(case: Case) -> None:
    from candidates.candidate import Candidate

    candidate = Candidate(
        language=LanguageName.TRITON, source=case.source(), launch_parameters={"BLOCK": 1024, "num_warps": 4}
    )
    result = judge_result(case, Judge(BubblewrapSandbox()).judge(case_task("cuda-test", "sm_90"), candidate, b"", 3))
    assert result.outcome is CaseOutcome.AS_EXPECTED, result


@pytest.mark.parametrize("case", [case for case in CASES if case.language is LanguageName.CUDA], ids=lambda c: c.file)
def test_the_cuda_kernels_compile_and_wait_for_a_device(case: Case) -> None:
    try:
        find_toolkit()
    except CompilerUnavailable:
        pytest.skip("no CUDA toolkit")
    language, sandbox, task = CudaLanguage(), BubblewrapSandbox(), case_task("cuda-test", "sm_90")
    built = Builder(sandbox, {LanguageName.CUDA: language}, slots=1).build(task, case.candidate(language))
    assert not isinstance(built, Rejected), built
    result = judge_result(case, Judge(sandbox).judge(task, case.candidate(language), built, 3))
    due = CaseOutcome.AS_EXPECTED if case.judged == {"forbidden_symbol"} else CaseOutcome.NOT_RUN
    assert result.outcome is due, result
