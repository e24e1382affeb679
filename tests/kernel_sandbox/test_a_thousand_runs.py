"""Hundreds of sandboxes, before a release a thousand, of both kinds and with every kind of end, leave nothing."""

import contextlib
import gc
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sandbox_surroundings
from docker.constants import DEFAULT_NUM_POOLS
from docker_traces import traces_of_containers
from own_engine import OwnEngine
from sandbox_surroundings import traces_of_sandboxes

from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.sandbox import Ending, Limits, Sandbox, SandboxError, SandboxSession

OF_EACH, OF_EACH_BEFORE_A_RELEASE = 105, 500
LIMITS = Limits(wall_s=20.0, memory_bytes=256 << 20, processes=30, scratch_bytes=4 << 20)
SHORT = Limits(wall_s=0.2, scratch_bytes=1 << 20)
READ_ONLY = Limits(scratch_bytes=0)


def ends_by_itself(session: SandboxSession) -> bool:
    session.put("file", b"content")
    return session.run(["cat", "file"]).log == "content"


def crashes(session: SandboxSession) -> bool:
    return session.run(["sh", "-c", "kill -SEGV $$"]).ending is Ending.SIGNALED


def outlives(session: SandboxSession) -> bool:
    return session.run(["sh", "-c", "sleep 1000 & (sleep 1000 &) & true"]).exit_code == 0


def does_not_end(session: SandboxSession) -> bool:
    return session.run(["sleep", "1000"]).ending is Ending.TIMED_OUT


def fills(session: SandboxSession) -> bool:
    return session.run(["sh", "-c", "while :; do cat /bin/sh >> $((i+=1)); done"]).ending is not Ending.EXITED


def talks(session: SandboxSession) -> bool:
    process = session.start(["cat"])
    process.stdin.write(b"x")
    return process.stdout.read(1) == b"x"


def is_frozen(session: SandboxSession) -> bool:
    process = session.start(["sh", "-c", "sleep 1000 & echo x; while :; do :; done"])
    process.stdout.read(1)
    process.freeze()
    return True


USES: dict[Callable[[SandboxSession], bool], Limits] = {
    ends_by_itself: LIMITS,
    crashes: LIMITS,
    outlives: LIMITS,
    does_not_end: SHORT,
    fills: LIMITS,
    talks: READ_ONLY,
    is_frozen: LIMITS,
}


@pytest.mark.slow
@pytest.mark.parametrize("of_each", [OF_EACH, pytest.param(OF_EACH_BEFORE_A_RELEASE, marks=pytest.mark.long)])
def test_many_runs_leave_nothing_behind(docker_engine: OwnEngine, of_each: int) -> None:
    sandbox_surroundings.SERVICES.add(docker_engine.pid)
    sandboxes: list[Sandbox] = [BubblewrapSandbox(), docker_engine.sandbox()]
    for sandbox in sandboxes:
        sandbox.describe_limits()  # what they set up once is not what a run leaves
    uses = list(USES.items())
    work = [(sandbox, *uses[index % len(uses)]) for index in range(of_each) for sandbox in sandboxes]
    random.Random(0).shuffle(work)
    gc.collect()  # what tests before this one left open would close during this one
    before, descriptors_before, sockets_before = _traces(docker_engine), _descriptors(), _descriptors("socket")
    taken_s: Counter[str] = Counter()

    def use(sandbox: Sandbox, how: Callable[[SandboxSession], bool], limits: Limits) -> None:
        started_s = time.monotonic()
        try:
            with sandbox.open(limits) as session:
                assert how(session), (sandbox.name, how.__name__)
        except SandboxError as error:
            raise AssertionError(f"{sandbox.name}, {how.__name__}") from error
        taken_s[sandbox.name] += time.monotonic() - started_s

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(use, *each) for each in work]:
            done.result()
    after = _traces(docker_engine)
    assert after == before, {kind: (before[kind], left) for kind, left in after.items() if left != before[kind]}
    sockets = _descriptors("socket")
    assert _descriptors() - sockets <= descriptors_before - sockets_before
    # The SDK keeps a connection for each of its last addresses.
    assert sockets - sockets_before <= DEFAULT_NUM_POOLS
    print({name: f"{of_each} runs, {seconds / of_each:.3f} s each" for name, seconds in taken_s.items()})  # noqa: T201


def _traces(engine: OwnEngine) -> dict[str, object]:
    return traces_of_sandboxes() | traces_of_containers(engine)


def _descriptors(kind: str = "") -> int:
    links = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(link.startswith(kind) for link in links)
