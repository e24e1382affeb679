"""Compiles every probe for one architecture, with no GPU, and prints their registers, for test_probes."""

import json
import sys
import tempfile
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from compiler_agent.gpu_check import contests


class Recorder:
    """Stands where a launch would be: keeps what the kernel is called with."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.arguments: tuple[Any, ...] = ()
        self.options: dict[str, Any] = {}

    def __getitem__(self, grid: object) -> Any:
        def launch(*arguments: Any, **options: Any) -> None:
            self.arguments, self.options = arguments, options

        return launch


def main() -> None:
    target = GPUTarget("cuda", int(sys.argv[1]), 32)
    compiled = {}
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        for name, op in contests.OPS.items():
            kernel = contests.load_probe(name, op.launches[0])
            module = kernel.__globals__
            (label,) = [key for key, value in module.items() if isinstance(value, triton.JITFunction)]
            recorder = module[label] = Recorder(module[label])
            inputs = op.inputs(2, lambda *shape: torch.zeros(shape, dtype=torch.bfloat16))
            kernel(*inputs, *(torch.empty_like(each) for each in op.compute(*inputs)), 2)
            warps = recorder.options.pop("num_warps")
            names = recorder.function.arg_names
            values = dict(zip(names, recorder.arguments, strict=False)) | recorder.options
            signature = {
                key: "*bf16" if isinstance(value, torch.Tensor) else "constexpr" if key in recorder.options else "i32"
                for key, value in values.items()
            }
            source = ASTSource(recorder.function, signature, constexprs=recorder.options)
            made = triton.compile(source, target=target, options={"num_warps": warps})
            compiled[name] = made.metadata.shared
    print(json.dumps(compiled))  # noqa: T201


if __name__ == "__main__":
    main()
