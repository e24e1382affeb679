"""Whose fault the end of a program was, for ends that cannot be brought about in a test."""

import pytest

from kernel_sandbox.control_groups import MemoryAccount
from kernel_sandbox.ending import Cause, Evidence, read_ending
from kernel_sandbox.sandbox import Ending, SandboxError

GIB = 1 << 30
UNTOUCHED = MemoryAccount(was_killed=False, met_its_limit=False, peak_bytes=GIB)
KILLED_AT_ITS_LIMIT = MemoryAccount(was_killed=True, met_its_limit=True, peak_bytes=GIB)
KILLED_FOR_THE_MACHINE = MemoryAccount(was_killed=True, met_its_limit=False, peak_bytes=GIB)
KILLED_HOLDING_MOST = MemoryAccount(was_killed=True, met_its_limit=False, peak_bytes=6 * GIB)


def evidence(
    status: int,
    memory: MemoryAccount = UNTOUCHED,
    *,
    cause: Cause | None = None,
    log: str = "",
    used_up_cpu: bool = False,
    is_first_process: bool = True,
) -> Evidence:
    return Evidence(
        cause=cause,
        launcher_status=status,
        log=log,
        used_up_cpu=used_up_cpu,
        memory=memory,
        machine_bytes=8 * GIB,
        is_first_process=is_first_process,
    )


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(evidence(137), id="by somebody"),
        pytest.param(evidence(137, log="std::bad_alloc"), id="by somebody, after a lie"),
        pytest.param(evidence(137, KILLED_FOR_THE_MACHINE), id="for others' memory"),
        pytest.param(evidence(137, KILLED_FOR_THE_MACHINE, is_first_process=False), id="a child of process 1"),
        pytest.param(evidence(-9), id="the launcher"),
        pytest.param(evidence(-15), id="the launcher, kindly"),
    ],
)
def test_killed_from_outside_is_a_failure_of_machinery(killed: Evidence) -> None:
    with pytest.raises(SandboxError, match="killed"):
        read_ending(killed)


@pytest.mark.parametrize(
    ("ended", "ending"),
    [
        pytest.param(evidence(137, KILLED_AT_ITS_LIMIT), Ending.OUT_OF_MEMORY, id="its own memory limit"),
        pytest.param(evidence(1, KILLED_AT_ITS_LIMIT), Ending.OUT_OF_MEMORY, id="a child at the limit"),
        pytest.param(evidence(0, KILLED_AT_ITS_LIMIT), Ending.EXITED, id="a child at the limit, survived"),
        pytest.param(evidence(137, KILLED_HOLDING_MOST), Ending.OUT_OF_MEMORY, id="most of the machine's memory"),
        pytest.param(evidence(-9, KILLED_AT_ITS_LIMIT), Ending.OUT_OF_MEMORY, id="the launcher, for its group"),
        pytest.param(evidence(137, used_up_cpu=True), Ending.TIMED_OUT, id="hard CPU limit"),
        pytest.param(evidence(152), Ending.TIMED_OUT, id="SIGXCPU"),
        pytest.param(evidence(159), Ending.FORBIDDEN_SYSTEM_CALL, id="SIGSYS"),
        pytest.param(evidence(137, cause=Cause.TIME), Ending.TIMED_OUT, id="our time-out"),
        pytest.param(evidence(137, cause=Cause.REQUEST), Ending.SIGNALED, id="our request"),
        pytest.param(evidence(137, is_first_process=False), Ending.SIGNALED, id="a sibling, as far as can be told"),
        pytest.param(evidence(1, log="MemoryError"), Ending.OUT_OF_MEMORY, id="address space"),
    ],
)
def test_its_own_end_is_read(ended: Evidence, ending: Ending) -> None:
    assert read_ending(ended)[0] is ending
