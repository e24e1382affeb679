"""compute-sanitizer's logs, in the shapes that NVIDIA's guide shows; none of them was recorded on a device of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.judge.compute_sanitizer_log import (
    Clean,
    Flawed,
    Tool,
    Unfinished,
    read_sanitizer_log,
    sanitizer_command,
)
from candidates.verdict import Reason

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
INVALID_WRITE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at rows_of(const float *, float *, int)+0x1b0 in /scratch/candidate.cu:13
=========     by thread (0,0,0) in block (7,0,0)
=========     Address 0x7f2c4ba08000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2c4ba00000 of size 32768 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2f0a6a]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========
========= ERROR SUMMARY: 769 errors
========= ERROR SUMMARY: 749 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
OLD_INVALID_READ = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 8 bytes
=========     at 0xb0 in rows(float const*)
=========     by thread (32,0,0) in block (0,0,0)
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call
========= ERROR SUMMARY: 2 errors
"""
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at fold(const float *, float *)+0x550 in candidate.cu:10
=========     and Read access at fold(const float *, float *)+0x580 in candidate.cu:17 [65536 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNINITIALIZED = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at sum(float *)+0x70 in candidate.cu:4
=========     by thread (31,0,0) in block (1,0,0)
========= ERROR SUMMARY: 1 error
"""
BARRIER = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp
=========     at fold(float *)+0x2c8
========= ERROR SUMMARY: 1 error
"""


def test_a_log_without_errors_is_clean() -> None:
    assert read_sanitizer_log(Tool.MEMCHECK, CLEAN) == Clean(tool=Tool.MEMCHECK)
    races = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
    assert read_sanitizer_log(Tool.RACECHECK, races) == Clean(tool=Tool.RACECHECK)


def test_a_race_that_may_be_meant_is_no_error() -> None:
    warned = RACE.replace("Error: Race", "Warning: Race").replace("(1 error, 0 warnings)", "(0 errors, 1 warning)")
    assert read_sanitizer_log(Tool.RACECHECK, warned) == Clean(tool=Tool.RACECHECK)


@pytest.mark.parametrize(
    ("tool", "log", "reason", "message", "errors"),
    [
        (
            Tool.MEMCHECK,
            INVALID_WRITE,
            Reason.MEMORY_ERROR,
            "Invalid __global__ write of size 4 bytes at rows_of(const float *, float *, int) in candidate.cu:13",
            769,
        ),
        (
            Tool.MEMCHECK,
            OLD_INVALID_READ,
            Reason.MEMORY_ERROR,
            "Invalid __global__ read of size 8 bytes at 0xb0 in rows(float const*)",
            2,
        ),
        (
            Tool.RACECHECK,
            RACE,
            Reason.UNDEFINED_BEHAVIOUR,
            "Error: Race reported between Write access at fold(const float *, float *)+0x550 in candidate.cu:10",
            1,
        ),
        (
            Tool.INITCHECK,
            UNINITIALIZED,
            Reason.MEMORY_ERROR,
            "Uninitialized __global__ memory read of size 4 bytes at sum(float *) in candidate.cu:4",
            1,
        ),
        (
            Tool.SYNCCHECK,
            BARRIER,
            Reason.UNDEFINED_BEHAVIOUR,
            "Barrier error detected. Divergent thread(s) in warp at fold(float *)",
            1,
        ),
    ],
)
def test_says_the_first_error_and_where(tool: Tool, log: str, reason: Reason, message: str, errors: int) -> None:
    assert read_sanitizer_log(tool, log) == Flawed(tool=tool, reason=reason, message=message, errors=errors)


@pytest.mark.parametrize(
    "log",
    [
        "",
        "Segmentation fault\n",
        "========= COMPUTE-SANITIZER\n========= Error: Target application terminated before first API call\n",
        INVALID_WRITE.partition("========= ERROR SUMMARY")[0],
    ],
)
def test_a_log_without_its_summary_is_no_clean_bill(log: str) -> None:
    assert isinstance(read_sanitizer_log(Tool.MEMCHECK, log), Unfinished)


def test_a_log_that_names_a_warning_first_says_the_error() -> None:
    lines = RACE.splitlines()
    log = "\n".join([lines[0], lines[1].replace("Error: Race", "Warning: Race"), *lines[1:]])
    found = read_sanitizer_log(Tool.RACECHECK, log)
    assert isinstance(found, Flawed)
    assert found.message.startswith("Error: Race reported between Write access at fold")


@given(st.lists(st.sampled_from([*INVALID_WRITE.splitlines(), *RACE.splitlines(), "========= ", "x"])))
def test_any_log_is_read(lines: list[str]) -> None:
    found = read_sanitizer_log(Tool.MEMCHECK, "\n".join(lines))
    assert not isinstance(found, Clean)


def test_the_command_ends_with_what_is_watched() -> None:
    command = sanitizer_command(Tool.RACECHECK, "/tmp/log", ["python", "runner.py"])
    assert command[0] == "compute-sanitizer"
    assert command[-2:] == ("python", "runner.py")
    assert command[1:3] == ("--tool", "racecheck")
    assert "--racecheck-report" in command
