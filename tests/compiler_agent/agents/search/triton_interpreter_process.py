"""Run as a process: executes Triton sources in the interpreter, one request after the other, until its input ends.

A request is what torch.save writes of `source`, `launch_parameters`, the `arguments` of its `kernel` and the `memory`
below them; the answer is the last two afterwards, or a text that says what went wrong. TRITON_INTERPRET must be set.
"""

import io
import sys
import traceback
import types
from pathlib import Path

import torch

from kernel_sandbox.runners.interpreter_repairs import repair


def main(folder: Path) -> None:
    repair()
    modules: dict[tuple[str, str], types.ModuleType] = {}
    while size := sys.stdin.buffer.read(8):
        request = torch.load(io.BytesIO(sys.stdin.buffer.read(int.from_bytes(size, "little"))), weights_only=False)
        try:
            key = request["source"], repr(request["launch_parameters"])
            if key not in modules:
                modules[key] = load(request["source"], request["launch_parameters"], folder / f"k{len(modules)}.py")
            modules[key].kernel(*request["arguments"])
            answer = [request["arguments"], request["memory"]]
        except Exception:  # noqa: BLE001 - whatever a kernel raises is the answer
            answer = traceback.format_exc()
        buffer = io.BytesIO()
        torch.save(answer, buffer)
        sys.stdout.buffer.write(len(buffer.getvalue()).to_bytes(8, "little") + buffer.getvalue())
        sys.stdout.buffer.flush()


def load(source: str, launch_parameters: dict[str, object], path: Path) -> types.ModuleType:
    """Triton reads a kernel's text from its file."""
    path.write_text(source)
    module = types.ModuleType(path.stem)
    module.__dict__.update({f"LAUNCH_{name}": value for name, value in launch_parameters.items()})
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


if __name__ == "__main__":
    main(Path(sys.argv[1]))
