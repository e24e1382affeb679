"""Contests on a fake GPU: kernels with times of our choosing, and one of everything that can go wrong."""

from collections.abc import Callable, Mapping

import torch

from compiler_agent.gpu_check.contest import Contest, Entrant, Outputs
from compiler_agent.gpu_check.results import GpuCeilings
from tests.fake_gpu import FakeGpu

CEILINGS = GpuCeilings.model_validate(
    {
        "copy_bandwidth": [
            {"working_set_bytes": 1 << 20, "bytes_per_s": 2e9},
            {"working_set_bytes": 1 << 24, "bytes_per_s": 1e9},
        ],
        "flops_per_s": {"bfloat16": 1e12},
    }
)
EXACT = torch.linspace(-1, 1, 512, dtype=torch.float64).reshape(4, 128)


def entrant(
    gpu: FakeGpu,
    name: str,
    us: float,
    *,
    result: torch.Tensor = EXACT,
    work: Callable[[], None] | None = None,
    launches: int = 1,
    launch: Mapping[str, int] | None = None,
) -> Entrant:
    output = torch.full(EXACT.shape, float("nan"), dtype=torch.bfloat16)

    def compute() -> None:
        output.copy_(result)

    def call() -> None:
        for _ in range(launches - 1):
            gpu.launch(lambda: None, us=us / launches)
        gpu.launch(work or compute, us=us / launches, reads=["inputs"])

    return Entrant(name=name, call=call, outputs=lambda: (output,), launch=launch or {})


def contest(gpu: FakeGpu, ours: list[Callable[[], Entrant]], compiled: Callable[[], Entrant] | None = None) -> Contest:
    def exact() -> Outputs:
        return (EXACT,)

    return Contest(
        op="swiglu",
        rows=4,
        dtype=torch.bfloat16,
        moved_bytes=1 << 14,
        flops=0,
        exact=exact,
        eager=entrant(gpu, "eager", 40.0, launches=4),
        compiled=compiled or (lambda: entrant(gpu, "compile", 30.0)),
        ours=ours,
    )


def contest_named(name: str, rows: int, gpu: FakeGpu) -> Contest:
    """As a child makes them: `swiglu` is right, `rope` wrong, `softmax` faults, `gemv` raises when it is compiled."""
    wrong = EXACT + 0.5

    def ours() -> Entrant:
        if name == "gemv":
            raise RuntimeError("no such instruction")
        if name == "softmax" and rows == 32:
            return entrant(gpu, "ours", 20.0, work=lambda: gpu.fault("an illegal memory access was encountered"))
        return entrant(gpu, "ours", 20.0, result=wrong if name == "rope" else EXACT, launch={"BLOCK": 64})

    made = contest(gpu, [ours])
    return Contest(**{field: getattr(made, field) for field in made.__dataclass_fields__} | {"op": name, "rows": rows})
