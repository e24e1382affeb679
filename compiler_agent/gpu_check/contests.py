"""Five ops of an LLM as contests, at the sizes of Llama 3 8B, bfloat16: PyTorch eager, torch.compile, and our probe.

The probes in `probes/` are candidate files by hand, with a few launch parameters to choose from; they try the GPU and
the path to it, no agent sees or improves them.
"""

import itertools
import linecache
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch
from torch.nn import functional

from compiler_agent.gpu_check.contest import Contest, Entrant, Outputs

HIDDEN, FEED_FORWARD, HEADS, HEAD_DIM, CLASSES = 4096, 14336, 32, 128, 32000
DECODE_ROWS, PREFILL_ROWS = (1, 32), 2048
DTYPE = torch.bfloat16
Draw = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    rows: tuple[int, ...]
    inputs: Callable[[int, Draw], tuple[torch.Tensor, ...]]
    """Given rows, and what draws a normal tensor of a shape."""
    compute: Callable[..., Outputs]
    """In PyTorch, in the type of its inputs."""
    launches: tuple[Mapping[str, int], ...]
    flops_a_row: int = 0


def _rmsnorm_residual(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Outputs:
    total = x + residual
    wide = total.float() if total.dtype is not torch.float64 else total
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (wide * scale * weight.to(wide.dtype)).to(x.dtype), total


def _rope(q: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> Outputs:
    low, high = q.chunk(2, -1)
    c, s = cosine[:, None, :], sine[:, None, :]
    return (torch.cat((low * c - high * s, high * c + low * s), -1),)


def _draw_rope(rows: int, draw: Draw) -> tuple[torch.Tensor, ...]:
    angles = draw(rows, HEAD_DIM // 2).float() * 3
    return draw(rows, HEADS, HEAD_DIM), angles.cos().to(DTYPE), angles.sin().to(DTYPE)


def _grid(**choices: Sequence[int]) -> tuple[Mapping[str, int], ...]:
    return tuple(dict(zip(choices, each, strict=True)) for each in itertools.product(*choices.values()))


OPS: Mapping[str, Op] = {
    "rmsnorm_residual": Op(
        rows=(*DECODE_ROWS, PREFILL_ROWS),
        inputs=lambda rows, draw: (draw(rows, HIDDEN), draw(rows, HIDDEN), draw(HIDDEN)),
        compute=_rmsnorm_residual,
        launches=_grid(BLOCK=(4096,), num_warps=(4, 8, 16)),
    ),
    "rope": Op(
        rows=(*DECODE_ROWS, PREFILL_ROWS),
        inputs=_draw_rope,
        compute=_rope,
        launches=_grid(HEADS=(4, 16, 32), num_warps=(2, 4)),
    ),
    "swiglu": Op(
        rows=(*DECODE_ROWS, PREFILL_ROWS),
        inputs=lambda rows, draw: (draw(rows, FEED_FORWARD), draw(rows, FEED_FORWARD)),
        compute=lambda gate, up: (functional.silu(gate) * up,),
        launches=_grid(BLOCK=(512, 1024, 4096), num_warps=(4, 8)),
    ),
    "softmax": Op(
        rows=(*DECODE_ROWS, PREFILL_ROWS),
        inputs=lambda rows, draw: (draw(rows, CLASSES) * 3,),
        compute=lambda x: (torch.softmax(x, -1),),
        launches=_grid(BLOCK=(32768,), num_warps=(8, 16, 32)),
    ),
    "gemv": Op(
        rows=DECODE_ROWS[:1],
        inputs=lambda rows, draw: (draw(rows, HIDDEN), draw(FEED_FORWARD, HIDDEN) * 0.02),
        compute=lambda x, weight: (functional.linear(x, weight),),
        launches=_grid(OUT=(4, 8, 16), IN=(512, 1024), num_warps=(4,)),
        flops_a_row=2 * HIDDEN * FEED_FORWARD,
    ),
}


def make_contest(name: str, op: Op, rows: int, device: torch.device, seed: int) -> Contest:
    generator = torch.Generator(device).manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device).to(DTYPE)

    inputs = op.inputs(rows, draw)
    shapes = [tuple(output.shape) for output in op.compute(*inputs)]
    outputs_bytes = sum(DTYPE.itemsize * torch.Size(shape).numel() for shape in shapes)

    def enter(label: str, compute: Callable[..., Outputs]) -> Entrant:
        left: list[Outputs] = []

        def call() -> None:
            left[:] = [compute(*inputs)]

        return Entrant(name=label, call=call, outputs=lambda: left[0])

    def enter_ours(launch: Mapping[str, int]) -> Entrant:
        kernel = load_probe(name, launch)
        outputs = tuple(torch.full(shape, float("nan"), dtype=DTYPE, device=device) for shape in shapes)
        return Entrant(
            name="ours", call=lambda: kernel(*inputs, *outputs, rows), outputs=lambda: outputs, launch=launch
        )

    return Contest(
        op=name,
        rows=rows,
        dtype=DTYPE,
        moved_bytes=sum(each.nbytes for each in inputs) + outputs_bytes,
        flops=op.flops_a_row * rows,
        exact=lambda: op.compute(*(each.double() for each in inputs)),
        eager=enter("eager", op.compute),
        compiled=lambda: enter("compile", torch.compile(op.compute, fullgraph=True, dynamic=False)),
        ours=[lambda launch=launch: enter_ours(launch) for launch in op.launches],  # type: ignore[misc]
    )


def load_probe(name: str, launch: Mapping[str, int]) -> Callable[..., None]:
    """The host function of a probe, a module of its own for each set of launch parameters."""
    return load_source(
        (resources.files("compiler_agent.gpu_check") / "probes" / f"{name}.py").read_text(), name, launch
    )


def load_source(source: str, name: str, launch: Mapping[str, int]) -> Callable[..., None]:
    """`kernel` of a Triton candidate's source, run in this process: for sources that one knows."""
    label = "_".join([f"compiler_agent_probe_{name}", *(f"{key}{value}" for key, value in sorted(launch.items()))])
    module = types.ModuleType(label)
    module.__file__ = f"<{label}>"
    module.__dict__.update({f"LAUNCH_{key}": value for key, value in launch.items()})
    # Triton reads a function's source through linecache, and finds what it refers to through its module.
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    sys.modules[label] = module
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    kernel: Any = module.__dict__["kernel"]
    found: Callable[..., None] = kernel
    return found
