"""Sanitizers: a kernel built with the address and undefined-behaviour sanitizers, run on reduced shapes in a sandbox.

They find what results do not show: a read one element beyond an input, scratch used after it was freed, an overflow
that this compiler happened to forgive. They are for authors who err: a kernel can tell that it is being watched. The
values that it leaves are not looked at; the judge does that.
"""

import hashlib
import re
import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
import torch

from candidates.builder import LIMITS as BUILD_LIMITS
from candidates.candidate import Candidate
from candidates.inputs import whole_allocation
from candidates.judge.outputs import Fault, rejected
from candidates.judge.reduced_shapes import Inputs, reduced_calls
from candidates.judge.sanitizer_report import ReportKind, read_report
from candidates.language import BuildRecipe, KernelLanguage
from candidates.task import InputRole, InputSpec, KernelTask, Workload
from candidates.verdict import Evidence, Reason, Rejected
from kernel_sandbox.sandbox import (
    SCRATCH,
    Ending,
    Finished,
    Limits,
    Sandbox,
    SandboxError,
    SandboxSession,
    SandboxUnavailable,
)

CALLS_A_SHAPE = 2
RUN_LIMIT_S = 60.0
MEMORY_LIMIT_BYTES = 4 << 30
ARTIFACT_LIMIT_BYTES = 64 << 20
_CONFLICTING_LAYOUT = (
    "Shadow memory range interleaves",
    "ReserveShadowMemoryRange failed",
    "failed to mmap",
    "failed to allocate",
)
_CONFLICTING_LAYOUT_TRIES = 3

_FLAGS = (
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1"),
    # At -O3, with every check inline, an unrolled kernel takes half a minute to compile; less is optimised away, too.
    *("-O1", "--param=asan-instrumentation-with-call-threshold=0"),
    # What would tell the source that it is being watched.
    "-U__SANITIZE_ADDRESS__",
)
_EXEMPTIONS = re.compile(r"\b_*no_(sanitize\w*|address_safety_analysis_*)(\s*\([^()]*\))?")
"""Attributes that take a function out of the check; they become one that means nothing."""

_ALL_CALLS_RETURNED, _MACHINERY_FAILED, _LOAD_FAILED, _ADDRESS, _UNDEFINED = 100, 70, 71, 101, 102
_OPTIONS = {
    # Leaks need ptrace, core files are off already. Signals are ours: a kernel's handler would hide them. What is not
    # written reads as NaN.
    "ASAN_OPTIONS": (
        f"exitcode={_ADDRESS}:detect_leaks=0:disable_coredump=0:handle_abort=2:handle_segv=2:handle_sigbus=2:handle_sigill=2"
        ":detect_stack_use_after_return=1:max_malloc_fill_size=1073741824:malloc_fill_byte=255"
        ":max_free_fill_size=1048576:free_fill_byte=255:quarantine_size_mb=64:color=never"
        f":hard_rss_limit_mb={MEMORY_LIMIT_BYTES >> 20}"
    ),
    "UBSAN_OPTIONS": f"exitcode={_UNDEFINED}:halt_on_error=1:color=never",
}
_KINDS = {InputRole.PARAMETER: 0, InputRole.ACTIVATION: 1, InputRole.STATE: 2}
_OUTPUT = 3
_REASONS = {
    Ending.TIMED_OUT: Reason.TIMED_OUT,
    Ending.OUT_OF_MEMORY: Reason.OUT_OF_MEMORY,
    Ending.FORBIDDEN_SYSTEM_CALL: Reason.FORBIDDEN_SYSTEM_CALL,
}
_MISSING_RUNTIME = ("cannot find -lasan", "cannot find -lubsan", "libasan", "libubsan", "libsanitizer")
_INSTALL = "apt-get install libasan8 libubsan1 (Debian, Ubuntu: they come with g++), dnf install libasan libubsan"

_runners: dict[str, bytes] = {}
"""The compiled runner by the digest of its source: one compilation a process at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """Nothing was found."""

    shapes: tuple[str, ...]
    elapsed_s: float


class SanitizersUnavailable(SandboxUnavailable):
    """The machine cannot run sanitized programs; the message says what to install or to set."""


class Sanitizers:
    """`language` is that of C++: its recipe with the sanitizers' flags is what is run."""

    def __init__(self, sandbox: Sandbox, language: KernelLanguage) -> None:
        self._sandbox = sandbox
        self._language = language

    def check(self, task: KernelTask, candidate: Candidate, seed: int | None = None) -> Sanitized | Rejected:
        """For a candidate that was built and judged before. Raises SandboxError for the machine's faults, its subclass
        SanitizersUnavailable where there are no sanitizers, and SourceRefused as the build does.
        """
        started_s = time.monotonic()
        seed = secrets.randbits(63) if seed is None else seed
        reduced = reduced_calls(task, np.random.default_rng(seed))
        artifact = self._build(task, candidate)
        if isinstance(artifact, Finished):
            evidence = Evidence(message=f"it does not build with sanitizers: {_first_error(artifact)}")
            return Rejected(
                reason=Reason.BUILD_FAILED,
                workload=None,
                evidence=evidence.model_copy(update={"log_tail": artifact.log}),
                seed=seed,
            )
        calls = [call for call in reduced for _ in range(CALLS_A_SHAPE)]
        finished = self._run(artifact, _encode(task, calls), task.threads)
        if finished.exit_code != _ALL_CALLS_RETURNED:
            return _verdict(task, [workload for workload, _ in calls], finished, seed)
        return Sanitized(shapes=tuple(workload.name for workload, _ in reduced), elapsed_s=time.monotonic() - started_s)

    def _build(self, task: KernelTask, candidate: Candidate) -> bytes | Finished:
        watched = candidate.model_copy(update={"source": _EXEMPTIONS.sub("unused", candidate.source)})
        recipe = self._language.build_recipe(task, watched)
        return _compile(self._sandbox, recipe)

    def _run(self, artifact: bytes, calls: bytes, threads: int) -> Finished:
        limits = Limits(
            wall_s=RUN_LIMIT_S,
            cpu_s=int(RUN_LIMIT_S) * threads,
            memory_bytes=MEMORY_LIMIT_BYTES,
            limits_address_space=False,  # the shadow of the address sanitizer takes terabytes
            processes=threads + 8,
            scratch_bytes=len(calls) + len(artifact) + (64 << 20),
        )
        with self._sandbox.open(limits) as session:
            session.put("sanitizer_runner", _runner_program(self._sandbox))
            session.put("kernel.so", artifact)
            session.put("calls", calls)
            threads_of_serving = {"OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false", "OMP_WAIT_POLICY": "passive"}
            return _execute(
                session,
                [f"{SCRATCH}/{name}" for name in ("sanitizer_runner", "kernel.so", "calls")],
                threads_of_serving,
            )


def check_sanitizers(sandbox: Sandbox) -> None:
    """One tiny real build and run. Raises SanitizersUnavailable with the fix, SandboxError as the sandbox does."""
    recipe = BuildRecipe(
        files={"nothing.cpp": f"int main() {{ return {_ALL_CALLS_RETURNED}; }}\n".encode()},
        commands=(("g++", "-o", "nothing", "nothing.cpp"),),
        artifact="nothing",
    )
    built = _compile(sandbox, recipe)
    if isinstance(built, Finished):
        raise SanitizersUnavailable(f"g++ cannot build with sanitizers ({_first_error(built)}): {_INSTALL}")
    with sandbox.open(Limits(limits_address_space=False)) as session:
        session.put("nothing", built)
        finished = _execute(session, [f"{SCRATCH}/nothing"], {})
    if finished.exit_code != _ALL_CALLS_RETURNED:
        raise SanitizersUnavailable(f"a program with sanitizers does not run here: {finished.log.strip()[-500:]}")


def _compile(sandbox: Sandbox, recipe: BuildRecipe) -> bytes | Finished:
    """The artifact, or how its compilation failed. Raises SanitizersUnavailable where the runtime is missing."""
    with sandbox.open(BUILD_LIMITS) as session:
        for name, content in recipe.files.items():
            session.put(name, content)
        for program, *arguments in recipe.commands:
            finished = session.run([program, *arguments, *_FLAGS])
            if any(words in finished.log for words in _MISSING_RUNTIME) and finished.exit_code != 0:
                raise SanitizersUnavailable(f"g++ has no sanitizers ({_first_error(finished)}): {_INSTALL}")
            if finished.ending is not Ending.EXITED or finished.exit_code != 0:
                return finished
        return session.get(recipe.artifact, ARTIFACT_LIMIT_BYTES)


def _runner_program(sandbox: Sandbox) -> bytes:
    source = resources.files("kernel_sandbox.runners").joinpath("sanitizer_runner.cpp").read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    if digest not in _runners:
        recipe = BuildRecipe(
            files={"sanitizer_runner.cpp": source},
            commands=(("g++", "-std=c++20", "-O1", "-o", "sanitizer_runner", "sanitizer_runner.cpp"),),
            artifact="sanitizer_runner",
        )
        built = _compile(sandbox, recipe)
        if isinstance(built, Finished):
            raise SandboxError(f"cannot compile the sanitizer runner; is g++ (10 or newer) installed?\n{built.log}")
        _runners[digest] = built
    return _runners[digest]


def _execute(session: SandboxSession, argv: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Raises SanitizersUnavailable when the sanitizer's own start fails."""
    for _ in range(_CONFLICTING_LAYOUT_TRIES):
        finished = session.run(argv, {**_OPTIONS, **environment})
        if not any(words in finished.log for words in _CONFLICTING_LAYOUT):
            break
    else:
        raise SanitizersUnavailable(
            "the address sanitizer finds no room for its shadow memory: sudo sysctl vm.mmap_rnd_bits=28 "
            f"vm.overcommit_memory=0, and no `ulimit -v` ({finished.log.strip()[-200:]})"
        )
    if finished.ending is Ending.EXITED and finished.exit_code == _MACHINERY_FAILED:
        raise SandboxError(f"the sanitizer runner failed: {finished.log.strip()[-500:]}")
    return finished


def _encode(task: KernelTask, calls: Sequence[tuple[Workload, Inputs]]) -> bytes:
    """As kernel_sandbox/runners/sanitizer_runner.cpp reads them; all calls have the parameters of the first."""
    parameters = task.inputs_of(InputRole.PARAMETER)
    specs = (*task.inputs, *task.outputs)
    words = [len(parameters), len(task.axes), len(specs), len(calls)]
    words += [spec.size_bytes(calls[0][0].axes) for spec in parameters]
    contents = [_content(calls[0][1][spec.name]) for spec in parameters]
    for workload, inputs in calls:
        words += [workload.axes[axis] for axis in task.axes]
        for spec in specs:
            if isinstance(spec, InputSpec) and spec.role is InputRole.PARAMETER:
                words += [_KINDS[spec.role], parameters.index(spec)]
            elif isinstance(spec, InputSpec):
                words += [_KINDS[spec.role], spec.size_bytes(workload.axes)]
                contents.append(_content(whole_allocation(inputs[spec.name], spec, workload.axes)))
            else:
                words += [_OUTPUT, spec.size_bytes(workload.axes)]
    return b"".join([struct.pack(f"={len(words)}Q", *words), *contents])


def _content(tensor: torch.Tensor) -> bytes:
    """In the order of its memory, which is dense."""
    flat = tensor.as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().tobytes()


def _verdict(task: KernelTask, workloads: Sequence[Workload], finished: Finished, seed: int) -> Rejected:
    report = read_report(task, finished.log)
    if finished.exit_code == _UNDEFINED and report.kind is ReportKind.UNDEFINED:
        reason = Reason.UNDEFINED_BEHAVIOUR
    elif finished.exit_code == _ADDRESS and report.kind is ReportKind.ADDRESS:
        reason = Reason.MEMORY_ERROR
    elif finished.exit_code == _ADDRESS and report.kind is ReportKind.MEMORY:
        reason = Reason.OUT_OF_MEMORY
    elif finished.ending is Ending.EXITED and finished.exit_code == _LOAD_FAILED:
        reason = Reason.LOAD_FAILED
    elif finished.ending is Ending.EXITED and report.kind is ReportKind.NONE:
        reason = Reason.BROKE_PROTOCOL
    else:
        reason = _REASONS.get(finished.ending, Reason.CRASHED)
    message = report.message or f"with sanitizers the kernel's process {finished.ending.value} ({finished.exit_code})"
    if report.call is None or report.call >= len(workloads):
        evidence = Evidence(message=message, log_tail=report.text)
        return Rejected(reason=reason, workload=None, evidence=evidence, seed=seed)
    return rejected(workloads[report.call], Fault(reason=reason, message=message), seed=seed, log_tail=report.text)


def _first_error(finished: Finished) -> str:
    errors = [line for line in finished.log.splitlines() if "error:" in line or "cannot find" in line]
    return errors[0] if errors else f"{finished.ending.value} {finished.exit_code}"
