"""Opens runners for kernels with a Python host side: sandboxed processes of kernel_sandbox/runners/python_runner.py."""

import contextlib
import json
from enum import StrEnum
from importlib import resources

from candidates.candidate import Candidate
from candidates.judge.runner_process import RunnerProcess
from candidates.task import InputSpec, KernelTask
from kernel_sandbox.arena import Arena, Segment
from kernel_sandbox.python_environment import python_environment
from kernel_sandbox.sandbox import SCRATCH, Limits, Sandbox

LOAD_LIMIT_S = 30.0
SESSION_LIMIT_S = 900.0
MEMORY_LIMIT_BYTES = 8 << 30
_PROCESSES = 16
_RUNNERS = resources.files("kernel_sandbox.runners")
_FILES = ("python_runner.py", "interpreter_repairs.py")


class Mode(StrEnum):
    INTERPRET = "interpret"
    """Triton's interpreter on the CPU: what a kernel computes can be judged, how fast it does cannot."""


def open_python_runner(
    sandbox: Sandbox,
    task: KernelTask,
    candidate: Candidate,
    arena: Arena,
    mode: Mode,
    *,
    call_limit_s: float,
    core: int | None = None,
) -> RunnerProcess:
    """A fresh process with the kernel's source loaded. Raises RunnerEnded when it cannot be, SandboxError for the
    machine. The arena must hold the descriptors' whole life."""
    environment = python_environment()
    session = sandbox.open(
        Limits(
            wall_s=SESSION_LIMIT_S,
            cpu_s=int(SESSION_LIMIT_S),
            memory_bytes=MEMORY_LIMIT_BYTES + 3 * sum(map(arena.size_bytes, Segment)),  # it copies every slot
            processes=_PROCESSES,
            scratch_bytes=0,
        ),
        environment.read_only,
    )
    with contextlib.ExitStack() as undo:
        undo.callback(session.close)
        for name in _FILES:
            session.put(name, _RUNNERS.joinpath(name).read_bytes())
        session.put("kernel.py", candidate.source.encode())
        session.put("call.json", json.dumps(_describe_call(task, candidate)).encode())
        descriptors = [arena.descriptors[segment] for segment in Segment]
        mapped = [str(word) for segment in Segment for word in (arena.descriptors[segment], arena.size_bytes(segment))]
        process = session.start(
            [*environment.argv, f"{SCRATCH}/python_runner.py", mode.value, *mapped],
            environment={"OMP_NUM_THREADS": "1"},
            file_descriptors=descriptors,
            core=core,
        )
        runner = RunnerProcess(
            session,
            process,
            arena,
            task,
            load_limit_s=LOAD_LIMIT_S,
            call_limit_s=call_limit_s,
            has_prepare=candidate.prepare is not None,
            is_judged=True,
        )
        runner.await_loading()
        undo.pop_all()
    return runner


def _describe_call(task: KernelTask, candidate: Candidate) -> dict[str, object]:
    """All that the runner gets to know of the task: no reference, no bound, no workload."""
    return {
        "entry": candidate.entry,
        "prepare": candidate.prepare,
        "launch_parameters": candidate.launch_parameters,
        "axes": task.axes,
        "tensors": [
            {
                "role": spec.role.value if isinstance(spec, InputSpec) else "output",
                "dtype": spec.element_type.value,
                "shape": spec.shape,
                "dim_order": spec.dim_order,
            }
            for spec in (*task.inputs, *task.outputs)
        ],
    }
