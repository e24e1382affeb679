"""Judging Triton kernels without a GPU: what the interpreter computes, what it cannot, and whose fault each end is."""

import pytest
from judge_tasks import RMSNORM, SANDBOX, input_spec, make_task, output_spec

from candidates.candidate import Candidate, LanguageName
from candidates.device import Gpu
from candidates.judge.judge import GpuBench, Judge
from candidates.judge.python_runner import INTERPRETED
from candidates.judge.runner_process import RunnerProcess
from candidates.task import ElementType, InputRole, KernelTask
from candidates.verdict import Accepted, EvidenceKind, NeedsDevice, Reason, Rejected, Verdict
from kernel_sandbox.sandbox import SandboxError

pytest.importorskip("triton", reason="Triton is not installed")

COLUMNS = RMSNORM.inputs[0].shape[-1]
HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
BODY = f"""@triton.jit
def _rows(x, weight, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < {COLUMNS}
    values = tl.load(x + row * {COLUMNS} + column, mask=mask, other=0.0)
    mean = tl.sum(values * values, 0) / {COLUMNS}
    scaled = values / tl.sqrt(mean + 1e-5) * tl.load(weight + column, mask=mask, other=0.0)
    tl.store(y + row * {COLUMNS} + column, scaled, mask=mask)


"""
KERNEL = """def kernel(x, weight, y, rows):
    _rows[(rows,)](x, weight, y, BLOCK=LAUNCH_BLOCK, num_warps=4)
"""
HONEST = HEAD + BODY + KERNEL
BLOCK = 1 << (int(COLUMNS) - 1).bit_length()

BFLOAT16_MADD = make_task(
    "madd",
    "def reference(a, b, c):\n    return a * b + c\n",
    [input_spec(name, ("rows", 64), element_type=ElementType.BFLOAT16) for name in "abc"],
    [output_spec("y", ("rows", 64), ElementType.BFLOAT16)],
)
SCALED_STATE = make_task(
    "scaled_state",
    "def reference(x, weight, total):\n    total.add_(x)\n    return x @ weight\n",
    [
        input_spec("x", ("rows", 16)),
        input_spec("weight", (16, 32), InputRole.PARAMETER),
        input_spec("total", ("rows", 16), InputRole.STATE),
    ],
    [output_spec("y", ("rows", 32))],
)


def judge(source: str, task: KernelTask = RMSNORM, **fields: object) -> Verdict:
    candidate = Candidate.model_validate(
        {"language": LanguageName.TRITON, "source": source, "launch_parameters": {"BLOCK": BLOCK}, **fields}
    )
    return Judge(SANDBOX).judge(task, candidate, b"")


def test_an_accepted_kernel_was_only_interpreted() -> None:
    verdict = judge(HONEST)
    assert isinstance(verdict, Accepted), verdict
    assert verdict.evidence is EvidenceKind.INTERPRETED


def test_bfloat16_arithmetic_rounds_as_on_a_gpu() -> None:
    body = "@triton.jit\ndef _madd(a, b, c, y, n, BLOCK: tl.constexpr):\n"
    body += "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    m = i < n\n"
    body += "    p = tl.load(a + i, mask=m) * tl.load(b + i, mask=m) + tl.load(c + i, mask=m)\n"
    body += "    tl.store(y + i, tl.where(p > -1e30, p, -p), mask=m)\n\n\n"
    kernel = (
        "def kernel(a, b, c, y, rows):\n    _madd[(triton.cdiv(rows * 64, 32),)](a, b, c, y, rows * 64, BLOCK=32)\n"
    )
    verdict = judge(HEAD + body + kernel, BFLOAT16_MADD)
    assert isinstance(verdict, Accepted), verdict


def test_bfloat16_products_are_of_values_and_not_of_bits() -> None:
    task = make_task(
        "linear_sum",
        "def reference(x, weight):\n    return x @ weight, x.sum(-1)\n",
        [
            input_spec("x", ("rows", 16), element_type=ElementType.BFLOAT16),
            input_spec("weight", (16, 16), InputRole.PARAMETER, ElementType.BFLOAT16),
        ],
        [
            output_spec("y", ("rows", 16), ElementType.BFLOAT16),
            output_spec("total", ("rows",), ElementType.BFLOAT16),
        ],
    )
    body = "@triton.jit\ndef _tile(x, weight, y, total, rows):\n    m = tl.program_id(0) * 16 + tl.arange(0, 16)\n"
    body += "    k = tl.arange(0, 16)\n    at = m[:, None] * 16 + k[None, :]\n    mask = m[:, None] < rows\n"
    body += "    left = tl.load(x + at, mask=mask, other=0.0)\n"
    body += "    right = tl.load(weight + k[:, None] * 16 + k[None, :])\n"
    body += "    tl.store(y + at, tl.dot(left, right).to(tl.bfloat16), mask=mask)\n"
    body += "    tl.store(total + m, tl.sum(left.to(tl.float32), 1), mask=m < rows)\n\n\n"
    kernel = "def kernel(x, weight, y, total, rows):\n    _tile[(triton.cdiv(rows, 16),)](x, weight, y, total, rows)\n"
    verdict = judge(HEAD + body + kernel, task)
    assert isinstance(verdict, Accepted), verdict


def test_prepared_parameters_and_states_reach_the_kernel() -> None:
    body = "@triton.jit\ndef _row(x, packed, total, y):\n    row = tl.program_id(0)\n    k = tl.arange(0, 16)\n"
    body += "    n = tl.arange(0, 32)\n    values = tl.load(x + row * 16 + k)\n"
    body += "    w = tl.load(packed + n[:, None] * 16 + k[None, :])\n"
    body += "    tl.store(y + row * 32 + n, tl.sum(w * values[None, :], 1))\n"
    body += "    tl.store(total + row * 16 + k, tl.load(total + row * 16 + k) + values)\n\n\n"
    prepare = "def pack(weight):\n    return weight.t().contiguous()\n\n\n"
    kernel = "def kernel(x, weight, total, y, prepared, rows):\n    _row[(rows,)](x, prepared, total, y)\n"
    verdict = judge(HEAD + body + prepare + kernel, SCALED_STATE, prepare="pack")
    assert isinstance(verdict, Accepted), verdict


@pytest.mark.parametrize(
    ("source", "reason", "message"),
    [
        (HONEST.replace("1e-5", "1e-2"), Reason.WRONG_VALUES, "should be"),
        (HONEST.replace("tl.store(y", "tl.store(x", 1), Reason.CHANGED_INPUTS, "wrote to an input"),
        (HONEST.replace("mask=mask)\n\n", f"mask=column < {COLUMNS} + 3)\n\n"), Reason.WROTE_OUT_OF_BOUNDS, "beside"),
        (HONEST.replace("    _rows[", "    y.copy_(x)\n    _rows["), Reason.LIBRARY_CALL, "aten::copy_"),
        (HONEST.replace("    _rows[", "    z = x * x\n    _rows["), Reason.LIBRARY_CALL, "aten::mul"),
        (HONEST.replace("(rows,)", "(rows - 1 or 1,)"), Reason.OUTPUT_NOT_WRITTEN, "were not written"),
        (HONEST.replace("_rows[(rows", "_lines[(rows"), Reason.CRASHED, "NameError"),
        (HONEST.replace("import torch", "import torchh"), Reason.LOAD_FAILED, "No module named 'torchh'"),
        (HONEST.replace("def kernel", "def another"), Reason.LOAD_FAILED, "defines no function kernel"),
    ],
)
def test_a_wrong_kernel_is_rejected_for_what_it_did(source: str, reason: Reason, message: str) -> None:
    verdict = judge(source)
    assert isinstance(verdict, Rejected), verdict
    assert (verdict.reason, message in verdict.evidence.message) == (reason, True), verdict.evidence


def test_what_the_interpreter_cannot_run_needs_a_device() -> None:
    asm = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [values], dtype=tl.float32, is_pure=True, pack=1)'
    verdict = judge(HONEST.replace("scaled = values", f"scaled = {asm}"))
    assert isinstance(verdict, NeedsDevice), verdict
    assert "inline_asm" in verdict.note


def test_on_a_gpu_what_graphs_replay_is_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[int] = []

    class Recorded(RunnerProcess):
        def capture(self, first: int, count: int, how: int) -> None:
            captured.append(count)
            super().capture(first, count, how)

    monkeypatch.setattr("candidates.judge.judge.on_gpu", lambda uuid: INTERPRETED)
    monkeypatch.setattr("candidates.judge.python_runner.RunnerProcess", Recorded)
    gpu = Gpu(uuid="GPU-00000000-0000-0000-0000-000000000000", architecture="sm_90")
    body = "@triton.jit\ndef _row(x, weight, total, y):\n    row = tl.program_id(0)\n    k = tl.arange(0, 16)\n"
    body += "    n = tl.arange(0, 32)\n    values = tl.load(x + row * 16 + k)\n"
    body += "    w = tl.load(weight + k[:, None] * 32 + n[None, :])\n"
    body += "    tl.store(y + row * 32 + n, tl.sum(w * values[:, None], 0))\n"
    body += "    tl.store(total + row * 16 + k, tl.load(total + row * 16 + k) + values)\n\n\n"
    kernel = "def kernel(x, weight, total, y, rows):\n    _row[(rows,)](x, weight, total, y)\n"
    candidate = Candidate(language=LanguageName.TRITON, source=HEAD + body + kernel)
    task = SCALED_STATE.aimed_at(("sm_90",))
    verdict = Judge(SANDBOX, gpu=GpuBench(gpu=gpu, sandbox=SANDBOX)).judge(task, candidate, b"no zip")
    assert isinstance(verdict, Accepted), verdict
    assert sum(captured) == verdict.calls_checked / 2


def test_a_gpu_that_is_not_there_is_the_machines_fault() -> None:
    gpu = Gpu(uuid="GPU-00000000-0000-0000-0000-000000000000", architecture="sm_90")
    candidate = Candidate(language=LanguageName.TRITON, source=HONEST, launch_parameters={"BLOCK": BLOCK})
    with pytest.raises(SandboxError, match=r"CUDA|GPU"):
        Judge(SANDBOX, gpu=GpuBench(gpu=gpu, sandbox=SANDBOX)).judge(RMSNORM.aimed_at(("sm_90",)), candidate, b"no zip")
