"""PythonKernel: a module with a host function that launches Triton's kernels.

Runs beside python_runner.py in a sandbox. The source was held to its rules outside.
"""

import linecache
import sys
import types
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent


class PythonKernel:
    """Of `kernel.py` beside this file."""

    def __init__(self, call: dict[str, Any]) -> None:
        """Raises what the source does, and ValueError for one that lacks a function."""
        path = FOLDER / "kernel.py"
        module = types.ModuleType("kernel")
        module.__file__ = str(path)
        module.__dict__.update({f"LAUNCH_{name}": value for name, value in call["launch_parameters"].items()})
        sys.modules["kernel"] = module  # Triton looks functions up by their module
        linecache.checkcache(str(path))
        exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
        for name in filter(None, (call["entry"], call["prepare"])):
            if not callable(module.__dict__.get(name)):
                raise ValueError(f"the source defines no function {name}")
        self.entry: Any = module.__dict__[call["entry"]]
        self.repack: Any = module.__dict__[call["prepare"]] if call["prepare"] else None

    def prepare(self, device: Any, parameters: list[torch.Tensor]) -> Any:
        result = self.repack(*parameters)
        for part in result if type(result) is tuple else (result,):
            if type(part) is not torch.Tensor:  # one of a class of its own could compute where it is read
                raise TypeError(f"prepare gave {type(part).__name__}: a tensor or a tuple of tensors is wanted")
        return result

    def call(self, device: Any, tensors: list[torch.Tensor], prepared: Any, sizes: list[int]) -> None:
        self.entry(*tensors, *([] if self.repack is None else [prepared]), *sizes)
