"""Small tasks and a judge for them, through the real sandbox, compiler and runner."""

from collections.abc import Sequence

from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.error_bound import derive_error_bound
from candidates.judge.judge import Judge
from candidates.languages.cpp import CppLanguage
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
from candidates.verdict import Accepted, NeedsDevice, Rejected
from kernel_sandbox.bubblewrap import BubblewrapSandbox

SANDBOX = BubblewrapSandbox()
BUILDER = Builder(SANDBOX, {LanguageName.CPP: CppLanguage()}, slots=2)
JUDGE = Judge(SANDBOX, call_limit_s=1.0)

Shape = tuple[int | str, ...]


def judge_source(
    task: KernelTask,
    source: str,
    *,
    prepare: str | None = None,
    seed: int | None = None,
    builder: Builder = BUILDER,
    judge: Judge = JUDGE,
) -> Accepted | Rejected | NeedsDevice:
    """Builds and judges C++ whose text needs no includes of its own."""
    candidate = Candidate(language=LanguageName.CPP, source=INCLUDES + source, prepare=prepare)
    artifact = builder.build(task, candidate)
    return artifact if isinstance(artifact, Rejected) else judge.judge(task, candidate, artifact, seed=seed)


def input_spec(
    name: str,
    shape: Shape,
    role: InputRole = InputRole.ACTIVATION,
    element_type: ElementType = ElementType.FLOAT32,
    dim_order: Sequence[int] | None = None,
) -> InputSpec:
    order = tuple(range(len(shape)) if dim_order is None else dim_order)
    return InputSpec(name=name, element_type=element_type, shape=shape, dim_order=order, role=role)


def output_spec(name: str, shape: Shape, element_type: ElementType = ElementType.FLOAT32) -> TensorSpec:
    return TensorSpec(name=name, element_type=element_type, shape=shape, dim_order=tuple(range(len(shape))))


def make_task(
    op: str,
    reference: str,
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
    *,
    rows: Sequence[int] = (1, 8, 33),
    hidden_rows: Sequence[int] = (5,),
    threads: int = 1,
) -> KernelTask:
    """A task over one axis `rows`, with the error bound of PyTorch's own op."""
    public = [Workload(axes={"rows": size}, calls_per_hour=60.0) for size in rows]
    hidden = [Workload(axes={"rows": size}, calls_per_hour=1.0, is_hidden=True) for size in hidden_rows]
    task = KernelTask(
        op=op,
        site=f"tests.{op}",
        level=SiteLevel.LEAF,
        reference=reference,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        axes=("rows",),
        workloads=(*public, *hidden),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-test",
        threads=threads,
    )
    return task.model_copy(update={"error_bound": derive_error_bound(task)})


RMSNORM = make_task(
    "rmsnorm",
    "def reference(x, weight):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight\n",
    [input_spec("x", ("rows", 576)), input_spec("weight", (576,), InputRole.PARAMETER)],
    [output_spec("y", ("rows", 576))],
)

LINEAR = make_task(
    "linear",
    "def reference(x, weight):\n    return torch.nn.functional.linear(x, weight)\n",
    [input_spec("x", ("rows", 64)), input_spec("weight", (48, 64), InputRole.PARAMETER)],
    [output_spec("y", ("rows", 48))],
)
STATE_TASK = make_task(
    "accumulate",
    "def reference(x, total):\n    total.add_(x)\n    return total.abs().amax(-1)\n",
    [input_spec("x", ("rows", 64)), input_spec("total", ("rows", 64), InputRole.STATE)],
    [output_spec("peak", ("rows",))],
)

# <bits/stl_algobase.h> has std::copy, fill and max; <algorithm> takes three times as long to compile.
INCLUDES = """\
#include <bits/stl_algobase.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
"""
