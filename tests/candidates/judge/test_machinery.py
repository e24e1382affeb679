"""A failure of machinery is never a verdict about a kernel."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from judge_tasks import BUILDER, RMSNORM, SANDBOX, judge_source
from test_honest_kernels import RMSNORM_SOURCE

from candidates.benchmark.exclusive import exclusive_slot
from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.inputs import Distribution
from candidates.judge.cpp_runner import open_cpp_runner, open_null_runner
from candidates.judge.judge import Judge
from candidates.judge.trial import Trial, place_parameters
from candidates.language import BuildRecipe
from candidates.verdict import Accepted, Reason, Rejected, Verdict
from kernel_sandbox.arena import Arena, ArenaFull, Segment
from kernel_sandbox.sandbox import SandboxError

SIGNATURE = 'extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) '
ENDLESS = f"{SIGNATURE}{{ for (volatile int64_t i = 0;; i = i + 1) {{}} }}"
INCLUDES = "#include <cstdint>\n#include <cmath>\n#include <cstdlib>\n"


def test_a_runner_that_somebody_kills_is_no_verdict() -> None:
    candidate = Candidate(language=LanguageName.CPP, source=INCLUDES + ENDLESS)
    artifact = BUILDER.build(RMSNORM, candidate)
    assert isinstance(artifact, bytes)
    killer = threading.Thread(target=_kill_what_runs, args=("kernel.so",))
    killer.start()
    with pytest.raises(SandboxError, match="killed from outside"):
        Judge(SANDBOX, call_limit_s=10.0).judge(RMSNORM, candidate, artifact)
    killer.join()


def test_nothing_is_judged_beside_a_measurement() -> None:
    candidate = Candidate(language=LanguageName.CPP, source=INCLUDES + RMSNORM_SOURCE)
    artifact = BUILDER.build(RMSNORM, candidate)
    assert isinstance(artifact, bytes)
    verdicts: list[Verdict] = []
    judging = threading.Thread(target=lambda: verdicts.append(Judge(SANDBOX).judge(RMSNORM, candidate, artifact)))
    with exclusive_slot():
        judging.start()
        judging.join(1.0)
        assert not verdicts
    judging.join()
    assert isinstance(verdicts[0], Accepted)


def test_a_compiler_that_somebody_kills_is_no_verdict() -> None:
    class Slow:
        name = LanguageName.CPP

        def build_recipe(self, task: object, candidate: object) -> BuildRecipe:
            return BuildRecipe(files={}, commands=(("sleep", "31.4"),), artifact="kernel.so")

    killer = threading.Thread(target=_kill_what_runs, args=("31.4",))
    killer.start()
    with pytest.raises(SandboxError, match="from outside"):
        Builder(SANDBOX, {LanguageName.CPP: Slow()}, slots=1).build(
            RMSNORM, Candidate(language=LanguageName.CPP, source="x")
        )
    killer.join()


@pytest.mark.parametrize("how", ["_Exit(137);", "raise(SIGKILL);", "kill(getpid(), SIGKILL);"])
def test_a_kernel_cannot_pass_for_a_failure_of_machinery(how: str) -> None:
    verdict = judge_source(RMSNORM, f"#include <csignal>\n#include <unistd.h>\n{SIGNATURE}{{ {how} }}")
    assert isinstance(verdict, Rejected)
    # A process 1 ignores what it sends itself; the outputs are then as they were.
    expected = {"_Exit(137);": Reason.FORBIDDEN_SYSTEM_CALL, "raise(SIGKILL);": Reason.OUTPUT_NOT_WRITTEN}
    assert verdict.reason is expected.get(how, Reason.FORBIDDEN_SYSTEM_CALL)


def test_a_full_arena_is_no_verdict() -> None:
    rng = np.random.default_rng(0)
    with Arena(1 << 14, 1 << 20) as arena:
        parameters = place_parameters(RMSNORM, arena, rng, 1)
        with pytest.raises(ArenaFull):
            Trial(RMSNORM, RMSNORM.public_workloads[-1], list(Distribution), parameters, arena, rng)


def test_a_runner_that_cannot_map_the_arena_is_no_verdict() -> None:
    candidate = Candidate(language=LanguageName.CPP, source=INCLUDES + RMSNORM_SOURCE)
    artifact = BUILDER.build(RMSNORM, candidate)
    assert isinstance(artifact, bytes)
    with _UnmappableArena(1 << 20, 1 << 20) as arena, pytest.raises(SandboxError, match="room for the arena"):
        open_cpp_runner(SANDBOX, RMSNORM, candidate, artifact, arena, None, 1)


def test_a_runner_without_a_kernel_blames_nobody() -> None:
    with Arena(1 << 20, 1 << 20) as arena:
        runner = open_null_runner(SANDBOX, RMSNORM, arena, None, 1, cache_folder=None)
        runner.lay_out([1], [])
        killer = threading.Thread(target=_kill_what_runs, args=("cpp_runner",))
        killer.start()
        killer.join()
        with pytest.raises(SandboxError):
            runner.run(0, 0)
        runner.close()


def test_a_kernel_that_is_not_on_trial_blames_nobody() -> None:
    candidate = Candidate(language=LanguageName.CPP, source=f"{INCLUDES}{SIGNATURE}{{ abort(); }}")
    artifact = BUILDER.build(RMSNORM, candidate)
    assert isinstance(artifact, bytes)
    with Arena(1 << 20, 1 << 20) as arena:
        runner = open_cpp_runner(SANDBOX, RMSNORM, candidate, artifact, arena, None, 1, is_judged=False)
        with pytest.raises(SandboxError, match="without the kernel on trial"):
            runner.run(0, 1)  # nothing is laid out: the runner refuses
        runner.close()


class _UnmappableArena(Arena):
    """Says that it is larger than the runner has room for."""

    def size_bytes(self, segment: Segment) -> int:
        return 1 << 62 if segment is Segment.OUTPUTS else super().size_bytes(segment)


def _kill_what_runs(word: str, limit_s: float = 20.0) -> None:
    """SIGKILL to the sandboxed process whose command line has `word`, as an operator would."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        for pid in _descendants():
            command = _read(Path(f"/proc/{pid}/cmdline"))
            if word.encode() in command and b"bwrap" not in command and b"\0--\0" not in command:
                time.sleep(0.2)
                os.kill(pid, signal.SIGKILL)
                return
        time.sleep(0.01)


def _descendants() -> list[int]:
    pids = [os.getpid()]
    for pid in pids:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            pids += [int(child) for child in _read(children).split()]
    return pids[1:]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
