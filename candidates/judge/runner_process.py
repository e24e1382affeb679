"""RunnerProcess: the judge's side of a runner in a sandbox, over the one protocol that all runners speak.

A request is a header (nonce, kind, first, count, bytes of payload) with a payload of 64-bit words, the reply the same
nonce with one word: see kernel_sandbox/runners/cpp_runner.cpp and python_runner.py.
"""

import os
import secrets
import select
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from candidates.kernel_runner import Call, NoGraph, Prepared, RunnerEnded
from candidates.task import KernelTask
from kernel_sandbox.arena import Arena, Place, Segment
from kernel_sandbox.runners.device_calls import NO_GRAPH, CallMode
from kernel_sandbox.sandbox import Ending, Finished, SandboxedProcess, SandboxError, SandboxSession

ENDING_GRACE_S = 2.0
"""How long a runner that closed its output may take to end by itself, so that we learn how it ended."""

_REQUEST = struct.Struct("=QIIII")
_REPLY = struct.Struct("=QQ")
_HOW = struct.Struct("=Q")
_HELLO, _PREPARE, _LAY_OUT, _RUN, _COPY_IN, _CAPTURE = range(6)
_OUTPUTS_BIT = 1 << 63


class Timed(NamedTuple):
    wall_ns: int
    """By the judge's clock, from request to reply."""
    told_ns: int | None
    """By the device's own clock, as the runner says, which may lie; None where it says nothing."""


class RunnerProcess:
    """See KernelRunner. `load_limit_s` bounds the answer to the first request, which waits for the kernel's loading.

    `is_judged` False: no kernel on trial is in it, and wherever RunnerEnded would be raised, SandboxError is.
    """

    def __init__(
        self,
        session: SandboxSession,
        process: SandboxedProcess,
        arena: Arena,
        task: KernelTask,
        *,
        load_limit_s: float,
        call_limit_s: float,
        has_prepare: bool,
        is_judged: bool,
        ending_grace_s: float = ENDING_GRACE_S,
    ) -> None:
        self._session = session
        self._is_judged = is_judged
        self._process = process
        self._arena = arena
        self._load_limit_s = load_limit_s
        self._call_limit_s = call_limit_s
        self._ending_grace_s = ending_grace_s
        self._axes_per_call = len(task.axes)
        self._tensors_per_call = len(task.inputs) + len(task.outputs)
        self._has_prepare = has_prepare
        self._stdin_fd = process.stdin.fileno()
        self._stdout_fd = process.stdout.fileno()
        os.set_blocking(self._stdin_fd, False)  # a runner that reads nothing must not hold us
        self._poll = select.poll()
        self._poll.register(self._stdout_fd, select.POLLIN)

    def await_loading(self) -> None:
        self._request(_HELLO, [], self._load_limit_s)

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
        return self.run_timed(first, count).wall_ns

    def run_null(self, count: int) -> int:
        return self.run(0, 0)

    def device_ns(self) -> int | None:
        return None

    def take_in(self) -> None:
        """The kernel finds the arena itself."""

    def run_timed(self, first: int, count: int, how: CallMode = CallMode.PLAIN) -> Timed:
        """As `run`; `how` is for a runner on a device, others know only PLAIN.

        The clock spans one write and one poll; nothing else happens between its two readings.
        """
        nonce = secrets.randbits(64)
        payload = _HOW.pack(how) if how else b""
        request = _REQUEST.pack(nonce, _RUN, first, count, len(payload)) + payload
        stdin_fd, poll, limit_ms = self._stdin_fd, self._poll.poll, self._call_limit_s * 1000
        started_ns = time.perf_counter_ns()
        try:
            os.write(stdin_fd, request)
        except BrokenPipeError:
            raise self._ended("the runner ended", grace_s=self._ending_grace_s) from None
        ready = poll(limit_ms)
        elapsed_ns = time.perf_counter_ns() - started_ns
        if not ready:
            raise self._overdue(self._call_limit_s)
        return Timed(wall_ns=elapsed_ns, told_ns=self._read_reply(nonce))

    def capture(self, first: int, count: int, how: CallMode) -> None:
        """Of a runner on a device: makes the calls once, so that a graph replays them later. Raises NoGraph."""
        if self._request(_CAPTURE, [how], self._call_limit_s, first, count) == NO_GRAPH:
            raise NoGraph("no CUDA graph can hold its calls")

    def rehearse(self, first: int, count: int) -> None:
        """Its calls are always ready."""

    def copy_in(self) -> None:
        """Of a runner on a device: it copies what lies in the arena now."""
        self._request(_COPY_IN, [], self._call_limit_s)

    def collect(self) -> None:
        # A runner that copies reads no request before it has.
        self._request(_HELLO, [], self._call_limit_s)

    def freeze(self) -> None:
        self._process.freeze()

    def thaw(self) -> None:
        self._process.thaw()

    def cpu_time_ns(self) -> int:
        return self._process.cpu_time_ns()

    def finish(self, limit_s: float) -> Finished:
        """Lets the runner end by itself, within `limit_s`: what watches it then writes its report. Its last use but
        `close`."""
        self._process.stdin.close()
        return self._process.kill(limit_s)

    def close(self) -> None:
        self._session.close()

    def _request(self, kind: int, words: Sequence[int], limit_s: float, first: int = 0, count: int = 0) -> int:
        nonce = secrets.randbits(64)
        payload = struct.pack(f"={len(words)}Q", *words)
        self._write(_REQUEST.pack(nonce, kind, first, count, len(payload)) + payload, limit_s)
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
                raise self._ended("the runner ended", grace_s=self._ending_grace_s) from None

    def _read_reply(self, nonce: int) -> int:
        reply = os.read(self._stdout_fd, _REPLY.size + 1)
        if not reply:
            raise self._ended("the runner ended", grace_s=self._ending_grace_s)
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


def _word(place: Place) -> int:
    return place.offset_bytes | (_OUTPUTS_BIT if place.segment is Segment.OUTPUTS else 0)
