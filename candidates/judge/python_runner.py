"""Opens runners for kernels with a Python host side: sandboxed processes of kernel_sandbox/runners/python_runner.py."""

import contextlib
import json
from dataclasses import dataclass, replace
from importlib import resources

from candidates.candidate import Candidate, LanguageName
from candidates.judge.runner_process import ENDING_GRACE_S, RunnerProcess
from candidates.judge.watcher import LOG_BYTES, Watcher
from candidates.kernel_runner import RunnerEnded
from candidates.languages.triton_artifact import TRITON_CACHE
from candidates.task import InputSpec, KernelTask
from kernel_sandbox.arena import Arena, Segment
from kernel_sandbox.python_environment import python_environment
from kernel_sandbox.runners.gpu_device import NO_DEVICE_STATUS
from kernel_sandbox.sandbox import SCRATCH, Ending, Limits, Sandbox

LOAD_LIMIT_S = 30.0
SESSION_LIMIT_S = 900.0
MEMORY_LIMIT_BYTES = 8 << 30
_PROCESSES = 64
"""Threads of CUDA and torch are among them, and the compiler of Triton's launchers."""
_GPU_SCRATCH_BYTES = 1 << 30
_WATCHER_PROCESSES = 192
_WATCHER_MEMORY_BYTES = 8 << 30
"""compute-sanitizer keeps track of a GPU's memory in the host's."""
_MACHINERY_STATUSES = (70, NO_DEVICE_STATUS)  # 70: MACHINERY_FAILED of python_runner.py
_RUNNERS = resources.files("kernel_sandbox.runners")
_FILES = (
    *("python_runner.py", "python_kernel.py", "host_watch.py"),
    *("gpu_device.py", "device_calls.py", "device_slots.py", "host_device.py"),
    *(f"interpreter_{part}.py" for part in ("repairs", "reductions", "launches", "races")),
)


INTERPRETED = "interpret"
"""Triton's interpreter on the CPU: what a kernel computes can be judged, how fast it does cannot."""


def on_gpu(uuid: str) -> str:
    """The mode of a runner on one GPU, or on a part of one (`MIG-…`)."""
    return f"device={uuid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A runner under a tool that watches what it does, and takes its time."""

    watcher: Watcher
    has_guards: bool
    """False: every tensor lies in memory of exactly its size, and nothing poisons what is free."""
    load_limit_s: float
    ending_grace_s: float
    """What the tool gets to write its report after the runner has ended."""


def open_python_runner(
    sandbox: Sandbox,
    task: KernelTask,
    candidate: Candidate | None,
    artifact: bytes,
    arena: Arena,
    mode: str,
    *,
    call_limit_s: float,
    core: int | None = None,
    is_judged: bool = True,
    watch: Watch | None = None,
) -> RunnerProcess:
    """A fresh process with the kernel loaded. Raises RunnerEnded when it cannot be, SandboxError for the machine.

    Without a candidate there is nothing to call. `is_judged` False: the kernel is not the one on trial, and wherever
    RunnerEnded would be raised, here or later, SandboxError is.
    The artifact of a Triton kernel is what a GPU need not compile again; its source is the candidate's. A runner that
    says that its machinery failed is believed if it also fails without the kernel; one under `watch` is not tried again
    here, since its tool may be at fault. The arena must hold the descriptors' whole life.
    """
    try:
        return _open(sandbox, task, candidate, artifact, arena, mode, call_limit_s, core, watch, is_judged=is_judged)
    except RunnerEnded as ended:
        finished = ended.finished
        if watch is None and finished.ending is Ending.EXITED and finished.exit_code in _MACHINERY_STATUSES:
            _open(sandbox, task, None, b"", arena, mode, call_limit_s, core, None, is_judged=False).close()
        raise


def _open(
    sandbox: Sandbox,
    task: KernelTask,
    candidate: Candidate | None,
    artifact: bytes,
    arena: Arena,
    mode: str,
    call_limit_s: float,
    core: int | None,
    watch: Watch | None,
    *,
    is_judged: bool,
) -> RunnerProcess:
    environment = python_environment()
    is_interpreted = mode == INTERPRETED
    limits = Limits(
        wall_s=SESSION_LIMIT_S,
        cpu_s=int(SESSION_LIMIT_S),
        memory_bytes=MEMORY_LIMIT_BYTES + 3 * sum(map(arena.size_bytes, Segment)),  # it copies every slot
        limits_address_space=is_interpreted,  # a GPU's memory is mapped into it
        processes=_PROCESSES,
        scratch_bytes=0 if is_interpreted else _GPU_SCRATCH_BYTES,
    )
    if watch is not None:
        limits = replace(
            limits,
            memory_bytes=limits.memory_bytes + _WATCHER_MEMORY_BYTES,
            limits_address_space=False,
            processes=_PROCESSES + _WATCHER_PROCESSES,
            scratch_bytes=_GPU_SCRATCH_BYTES,
            log_bytes=limits.log_bytes + LOG_BYTES,
        )
    shown = {**environment.read_only, **({} if watch is None else watch.watcher.program.read_only)}
    session = sandbox.open(limits, shown)
    with contextlib.ExitStack() as undo:
        undo.callback(session.close)
        for name in _FILES:
            session.put(name, _RUNNERS.joinpath(name).read_bytes())
        session.put("call.json", json.dumps(_describe_call(task, candidate, watch)).encode())
        if candidate is not None and candidate.language is LanguageName.TRITON:
            session.put("kernel.py", candidate.source.encode())
            session.put("kernel.zip", artifact)
        elif candidate is not None:
            session.put("kernel.so", artifact)
        under = () if watch is None else watch.watcher.command
        descriptors = [arena.descriptors[segment] for segment in Segment]
        mapped = [str(word) for segment in Segment for word in (arena.descriptors[segment], arena.size_bytes(segment))]
        process = session.start(
            [*under, *environment.argv, f"{SCRATCH}/python_runner.py", mode, *mapped],
            environment={
                "OMP_NUM_THREADS": "1",
                "TRITON_CACHE_DIR": TRITON_CACHE,
                "TRITON_DEFAULT_FP_FUSION": "1",
                **({} if watch is None else watch.watcher.environment),
            },
            file_descriptors=descriptors,
            core=core,
        )
        runner = RunnerProcess(
            session,
            process,
            arena,
            task,
            load_limit_s=LOAD_LIMIT_S if watch is None else watch.load_limit_s,
            call_limit_s=call_limit_s,
            has_prepare=candidate is not None and candidate.prepare is not None,
            is_judged=is_judged,
            ending_grace_s=ENDING_GRACE_S if watch is None else watch.ending_grace_s,
        )
        runner.await_loading()
        undo.pop_all()
    return runner


def _describe_call(task: KernelTask, candidate: Candidate | None, watch: Watch | None) -> dict[str, object]:
    """All that the runner gets to know of the task: no reference, no bound, no workload."""
    return {
        "is_watched": watch is not None,
        "has_guards": watch is None or watch.has_guards,
        "language": None if candidate is None else candidate.language.value,
        "entry": None if candidate is None else candidate.entry,
        "prepare": None if candidate is None else candidate.prepare,
        "launch_parameters": {} if candidate is None else candidate.launch_parameters,
        "axes": task.axes,
        "tensors": [
            {
                "role": spec.role.value if isinstance(spec, InputSpec) else "output",
                "dtype": spec.element_type.value,
                "shape": spec.shape,
                "dim_order": spec.dim_order,
                "allocated": spec.shape if spec.allocated is None else spec.allocated,
            }
            for spec in (*task.inputs, *task.outputs)
        ],
    }
