"""Calls an emitted Triton candidate in Triton's interpreter, which lives in a process of its own."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from compiled_kernel import Axes, guarded_outputs

from candidates.candidate import Candidate
from candidates.task import KernelTask

REPOSITORY = Path(__file__).parents[4]


class TritonInterpreter:
    """TRITON_INTERPRET counts when Triton is imported: the process has it set, this one does not."""

    def __init__(self, folder: Path) -> None:
        script = Path(__file__).with_name("triton_interpreter_process.py")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        )

    def call(self, candidate: Candidate, arguments: list[Any], memory: list[torch.Tensor]) -> list[list[Any]]:
        """The arguments and the memory below them, as the kernel left both."""
        buffer = io.BytesIO()
        request = {"source": candidate.source, "launch_parameters": candidate.launch_parameters}
        torch.save(request | {"arguments": arguments, "memory": memory}, buffer)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(len(buffer.getvalue()).to_bytes(8, "little") + buffer.getvalue())
        self._process.stdin.flush()
        size = int.from_bytes(self._process.stdout.read(8), "little")
        answer = torch.load(io.BytesIO(self._process.stdout.read(size)), weights_only=False)
        assert not isinstance(answer, str), f"{answer}\n{candidate.source}"
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class InterpretedKernel:
    def __init__(self, task: KernelTask, candidate: Candidate, interpreter: TritonInterpreter) -> None:
        self.task = task
        self.candidate = candidate
        self._interpreter = interpreter

    def __call__(self, inputs: Mapping[str, torch.Tensor], axes: Axes) -> dict[str, torch.Tensor]:
        outputs, rooms = guarded_outputs(self.task, axes)
        tensors = [inputs[spec.name] for spec in self.task.inputs]
        arguments = [*tensors, *outputs.values(), *(axes[axis] for axis in self.task.axes)]
        typed = [room.view(output.dtype) for room, output in zip(rooms, outputs.values(), strict=True)]
        after, memory = self._interpreter.call(self.candidate, arguments, typed)
        for tensor, given in zip(tensors, after, strict=False):
            assert torch.equal(tensor, given), "wrote an input"
        assert all(bool((room.view(torch.uint8)[-64:] == 0xFF).all()) for room in memory), "wrote behind an output"
        return dict(zip(outputs, after[len(tensors) :], strict=False))
