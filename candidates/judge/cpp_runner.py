"""Opens runners for C++ kernels: sandboxed processes of kernel_sandbox/runners/cpp_runner.cpp."""

import contextlib
import hashlib
from importlib import resources
from pathlib import Path

from candidates.candidate import Candidate
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.judge.runner_process import RunnerProcess
from candidates.kernel_runner import RunnerEnded
from candidates.task import KernelTask
from candidates.whole_file import write_whole
from kernel_sandbox.arena import Arena, Segment
from kernel_sandbox.sandbox import SCRATCH, Ending, Limits, Sandbox, SandboxError

LOAD_LIMIT_S = 10.0
CALL_LIMIT_S = 20.0
SESSION_LIMIT_S = 900.0
MEMORY_LIMIT_BYTES = 8 << 30

_MACHINERY_FAILED = 70  # ExitCode of cpp_runner.cpp

_COMPILED_DEFENCES: Defences = frozenset({Defence.SYSTEM_CALL_FILTER, Defence.FLOAT_STATE})
"""Those that the runner itself is compiled with or, in tests, without."""

_programs: dict[str, bytes] = {}
"""The compiled runner by the digest of its source: one compilation a process at most."""


def open_cpp_runner(
    sandbox: Sandbox,
    task: KernelTask,
    candidate: Candidate,
    artifact: bytes,
    arena: Arena,
    core: int | None,
    threads: int,
    *,
    call_limit_s: float = CALL_LIMIT_S,
    cache_folder: Path | None = None,
    defences: Defences = ALL_DEFENCES,
    is_judged: bool = True,
) -> RunnerProcess:
    """A fresh process with the kernel loaded. Raises RunnerEnded when it cannot be, SandboxError for the machine.

    `is_judged` False: the kernel is not the one on trial (but the live one), and wherever RunnerEnded would be raised,
    here or later, SandboxError is. A runner that says that its machinery failed is believed if it also fails without
    the kernel. The arena must hold the descriptors' whole life. `cache_folder` keeps the compiled runner between runs.
    """
    has_prepare = candidate.prepare is not None
    try:
        return _open(
            sandbox,
            task,
            artifact,
            arena,
            core,
            threads,
            call_limit_s,
            cache_folder,
            defences,
            has_prepare=has_prepare,
            is_judged=is_judged,
        )
    except RunnerEnded as ended:
        if (ended.finished.ending, ended.finished.exit_code) == (Ending.EXITED, _MACHINERY_FAILED):
            open_null_runner(sandbox, task, arena, core, threads, cache_folder=cache_folder).close()
        raise


def open_null_runner(
    sandbox: Sandbox, task: KernelTask, arena: Arena, core: int | None, threads: int, *, cache_folder: Path | None
) -> RunnerProcess:
    """As `open_cpp_runner`, without a kernel: only null batches, with nobody in the process who could lengthen them.

    However it ends, the machine is at fault: it and its runner raise SandboxError, never RunnerEnded.
    """
    return _open(
        sandbox,
        task,
        None,
        arena,
        core,
        threads,
        CALL_LIMIT_S,
        cache_folder,
        ALL_DEFENCES,
        has_prepare=False,
        is_judged=False,
    )


def _open(
    sandbox: Sandbox,
    task: KernelTask,
    artifact: bytes | None,
    arena: Arena,
    core: int | None,
    threads: int,
    call_limit_s: float,
    cache_folder: Path | None,
    defences: Defences,
    *,
    has_prepare: bool,
    is_judged: bool,
) -> RunnerProcess:
    program = _runner_program(sandbox, cache_folder, _COMPILED_DEFENCES - defences)
    session = sandbox.open(
        Limits(
            wall_s=SESSION_LIMIT_S,
            cpu_s=int(SESSION_LIMIT_S) * threads,
            memory_bytes=MEMORY_LIMIT_BYTES + sum(map(arena.size_bytes, Segment)),
            processes=threads,
            scratch_bytes=0,
        )
    )
    with contextlib.ExitStack() as undo:
        undo.callback(session.close)
        session.put("cpp_runner", program)
        if artifact is not None:
            session.put("kernel.so", artifact)
        descriptors = [arena.descriptors[segment] for segment in Segment]
        mapped = [str(word) for segment in Segment for word in (arena.descriptors[segment], arena.size_bytes(segment))]
        process = session.start(
            [f"{SCRATCH}/cpp_runner", "-" if artifact is None else f"{SCRATCH}/kernel.so", *mapped, str(threads)],
            environment={"OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false", "OMP_WAIT_POLICY": "passive"},
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
            has_prepare=has_prepare,
            is_judged=is_judged,
        )
        runner.await_loading()
        undo.pop_all()
    return runner


def _runner_program(sandbox: Sandbox, cache_folder: Path | None, without: Defences) -> bytes:
    source = resources.files("kernel_sandbox.runners").joinpath("cpp_runner.cpp").read_bytes()
    source = "".join(f"#define WITHOUT_{name.upper()}\n" for name in sorted(without)).encode() + source
    digest = hashlib.sha256(source).hexdigest()
    if digest not in _programs:
        cached = cache_folder / f"cpp_runner-{digest[:16]}" if cache_folder else None
        if cached is not None and cached.exists():
            _programs[digest] = cached.read_bytes()
        else:
            _programs[digest] = _compile_runner(sandbox, source)
            if cached is not None:
                write_whole(cached, _programs[digest])
    return _programs[digest]


def _compile_runner(sandbox: Sandbox, source: bytes) -> bytes:
    with sandbox.open(Limits()) as session:
        session.put("cpp_runner.cpp", source)
        finished = session.run(["g++", "-std=c++20", "-O2", "-o", "cpp_runner", "cpp_runner.cpp"])
        if finished.exit_code != 0:
            raise SandboxError(f"cannot compile the C++ runner; is g++ (10 or newer) installed?\n{finished.log}")
        return session.get("cpp_runner")
