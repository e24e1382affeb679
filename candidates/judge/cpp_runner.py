"""CppRunner: calls a C++ kernel in a sandboxed process, over the protocol of kernel_sandbox/runners/cpp_runner.cpp."""

import contextlib
import hashlib
import os
import secrets
import select
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from candidates.candidate import Candidate
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.kernel_runner import Call, Prepared, RunnerEnded
from candidates.task import KernelTask
from candidates.whole_file import write_whole
from kernel_sandbox.arena import Arena, Place, Segment
from kernel_sandbox.sandbox import (
    SCRATCH,
    Ending,
    Finished,
    Limits,
    Sandbox,
    SandboxedProcess,
    SandboxError,
    SandboxSession,
)

LOAD_LIMIT_S = 10.0
CALL_LIMIT_S = 20.0
SESSION_LIMIT_S = 900.0
ENDING_GRACE_S = 2.0
"""How long a runner that closed its output may take to end by itself, so that we learn how it ended."""
MEMORY_LIMIT_BYTES = 8 << 30

_REQUEST = struct.Struct("=QIIII")
_REPLY = struct.Struct("=QQ")
_HELLO, _PREPARE, _LAY_OUT, _RUN = range(4)
_OUTPUTS_BIT = 1 << 63
_MACHINERY_FAILED = 70  # ExitCode of cpp_runner.cpp

_COMPILED_DEFENCES: Defences = frozenset({Defence.SYSTEM_CALL_FILTER, Defence.FLOAT_STATE})
"""Those that the runner itself is compiled with or, in tests, without."""

_programs: dict[str, bytes] = {}
"""The compiled runner by the digest of its source: one compilation a process at most."""


class CppRunner:
    """See KernelRunner. Opened by `open_cpp_runner`."""

    def __init__(
        self,
        session: SandboxSession,
        process: SandboxedProcess,
        arena: Arena,
        task: KernelTask,
        call_limit_s: float,
        *,
        has_prepare: bool,
        is_judged: bool,
    ) -> None:
        self._session = session
        self._is_judged = is_judged
        self._process = process
        self._arena = arena
        self._call_limit_s = call_limit_s
        self._axes_per_call = len(task.axes)
        self._tensors_per_call = len(task.inputs) + len(task.outputs)
        self._has_prepare = has_prepare
        self._stdin_fd = process.stdin.fileno()
        self._stdout_fd = process.stdout.fileno()
        os.set_blocking(self._stdin_fd, False)  # a runner that reads nothing must not hold us
        self._poll = select.poll()
        self._poll.register(self._stdout_fd, select.POLLIN)

    def await_loading(self) -> None:
        self._request(_HELLO, [], LOAD_LIMIT_S)

    def prepare(self, parameter_sets: Sequence[tuple[Place, ...]]) -> Prepared:
        if not self._has_prepare or not parameter_sets:
            return Prepared(elapsed_ns=0, size_bytes=0)
        words = [len(parameter_sets), len(parameter_sets[0]), self._arena.used_bytes(Segment.INPUTS)]
        words += [_word(place) for places in parameter_sets for place in places]
        started_ns = time.perf_counter_ns()
        size_bytes = self._request(_PREPARE, words, self._call_limit_s)
        return Prepared(elapsed_ns=time.perf_counter_ns() - started_ns, size_bytes=size_bytes)

    def lay_out(self, axes: Sequence[int], calls: Sequence[Call]) -> None:
        if len(axes) != self._axes_per_call or any(len(call.tensors) != self._tensors_per_call for call in calls):
            raise ValueError(f"the task has {self._axes_per_call} axes and {self._tensors_per_call} tensors a call")
        words = [self._arena.used_bytes(Segment.INPUTS), self._arena.used_bytes(Segment.OUTPUTS)]
        words += [len(axes), *axes, len(calls), self._tensors_per_call]
        for call in calls:
            words += [call.parameter_set, *map(_word, call.tensors)]
        self._request(_LAY_OUT, words, self._call_limit_s)

    def run(self, first: int, count: int) -> int:
        """The clock spans one write and one poll; nothing else happens between its two readings."""
        nonce = secrets.randbits(64)
        request = _REQUEST.pack(nonce, _RUN, first, count, 0)
        stdin_fd, poll, limit_ms = self._stdin_fd, self._poll.poll, self._call_limit_s * 1000
        started_ns = time.perf_counter_ns()
        try:
            os.write(stdin_fd, request)
        except BrokenPipeError:
            raise self._ended("the runner ended", grace_s=ENDING_GRACE_S) from None
        ready = poll(limit_ms)
        elapsed_ns = time.perf_counter_ns() - started_ns
        if not ready:
            raise self._overdue(self._call_limit_s)
        self._read_reply(nonce)
        return elapsed_ns

    def freeze(self) -> None:
        self._process.freeze()

    def thaw(self) -> None:
        self._process.thaw()

    def involuntary_switches(self) -> int:
        return self._process.involuntary_switches()

    def cpu_time_ns(self) -> int:
        return self._process.cpu_time_ns()

    def close(self) -> None:
        self._session.close()

    def _request(self, kind: int, words: Sequence[int], limit_s: float) -> int:
        nonce = secrets.randbits(64)
        payload = struct.pack(f"={len(words)}Q", *words)
        self._write(_REQUEST.pack(nonce, kind, 0, 0, len(payload)) + payload, limit_s)
        if not self._poll.poll(limit_s * 1000):
            raise self._overdue(limit_s)
        return self._read_reply(nonce)

    def _write(self, message: bytes, limit_s: float) -> None:
        deadline_s = time.monotonic() + limit_s
        rest = memoryview(message)
        while rest:
            if not select.select([], [self._stdin_fd], [], max(deadline_s - time.monotonic(), 0))[1]:
                raise self._overdue(limit_s)
            try:
                rest = rest[os.write(self._stdin_fd, rest) :]
            except BrokenPipeError:
                raise self._ended("the runner ended", grace_s=ENDING_GRACE_S) from None

    def _read_reply(self, nonce: int) -> int:
        reply = os.read(self._stdout_fd, _REPLY.size + 1)
        if not reply:
            raise self._ended("the runner ended", grace_s=ENDING_GRACE_S)
        if len(reply) != _REPLY.size or (answer := _REPLY.unpack(reply))[0] != nonce:
            raise self._ended("the runner answered what it was not asked")
        value: int = answer[1]
        return value

    def _ended(self, message: str, grace_s: float = 0.0) -> RunnerEnded:
        finished = self._process.kill(grace_s)
        return self._blamed(f"{message} ({finished.ending.value} {finished.exit_code})", finished)

    def _overdue(self, limit_s: float) -> RunnerEnded:
        finished = replace(self._process.kill(), ending=Ending.TIMED_OUT)
        return self._blamed(f"the runner did not answer within {limit_s:g} s", finished)

    def _blamed(self, message: str, finished: Finished) -> RunnerEnded:
        """Raises SandboxError where no kernel on trial could be at fault."""
        if not self._is_judged:
            raise SandboxError(f"a runner without the kernel on trial failed: {message}\n{finished.log}")
        return RunnerEnded(message, finished)


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
) -> CppRunner:
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
) -> CppRunner:
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
) -> CppRunner:
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
        runner = CppRunner(session, process, arena, task, call_limit_s, has_prepare=has_prepare, is_judged=is_judged)
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


def _word(place: Place) -> int:
    return place.offset_bytes | (_OUTPUTS_BIT if place.segment is Segment.OUTPUTS else 0)
