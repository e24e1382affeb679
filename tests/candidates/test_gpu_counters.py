"""ncu's table, in the shape that ncu prints; none of them was recorded on a device of ours."""

from hypothesis import given
from hypothesis import strategies as st

from candidates.gpu_counters import METRICS, counters_command, read_counters, why_no_counters

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def _row(launch: int, kernel: str, metric: str, unit: str, value: str) -> str:
    return (
        f'"{launch}","42","python3","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(8, 1, 1)","0","9.0",'
        f'"Command line profiler metrics","{metric}","{unit}","{value}"'
    )


OUTPUT = "\n".join(
    [
        "==PROF== Connected to process 42 (/usr/bin/python3)",
        '==PROF== Profiling "rows_of" - 0: 0%....50%....100% - 2 passes',
        "what the program prints",
        HEADER,
        _row(0, "rows_of(const float *, float *)", "gpu__time_duration.sum", "ns", "12,352"),
        _row(0, "rows_of(const float *, float *)", next(name for name in METRICS if "dram" in name), "%", "61.25"),
        _row(0, "rows_of(const float *, float *)", "sm__pipe_tensor_cycles_active.avg", "%", "n/a"),
        _row(1, "other", "gpu__time_duration.sum", "ns", "900"),
        "==PROF== Disconnected from process 42",
    ]
)


def test_reads_counters_by_launch() -> None:
    first, second = read_counters(OUTPUT)
    assert first.kernel == "rows_of(const float *, float *)"
    assert [counter.value for counter in first.counters] == [12352.0, 61.25]
    assert second.launch == 1
    assert first.as_text() == ("rows_of(const float *, float *): 1.235e+04 ns time, 61.25% of memory bandwidth")


def test_an_output_without_a_table_has_no_counters() -> None:
    assert read_counters("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n") == ()


@given(st.text(), st.lists(st.sampled_from(OUTPUT.splitlines())))
def test_any_output_is_read(text: str, lines: list[str]) -> None:
    for kernel in read_counters("\n".join([HEADER, *lines, text])):
        assert kernel.as_text()


@given(st.text())
def test_a_reason_is_one_line_whatever_is_reported(report: str) -> None:
    assert len(why_no_counters(report).splitlines()) == 1


def test_says_how_to_be_let_at_counters() -> None:
    report = (
        "==PROF== Connected to process 42 (/usr/bin/python3)\n"
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
        "the target device 0.\n==WARNING== No kernels were profiled.\n"
    )
    assert "NVreg_RestrictProfilingToAdminUsers=0" in why_no_counters(report)


def test_the_first_error_is_the_reason() -> None:
    report = "==ERROR== A driver resource was unavailable.\n==ERROR== An error occurred while trying to profile.\n"
    assert why_no_counters(report) == "ncu: A driver resource was unavailable."
    assert why_no_counters("==WARNING== No kernels were profiled.\n") == "ncu saw no launch in the call"


def test_the_command_writes_to_a_file_and_ends_with_what_is_profiled() -> None:
    command = counters_command("/scratch/log", ["python", "runner.py"])
    assert command[-2:] == ("python", "runner.py")
    assert command[command.index("--log-file") + 1] == "/scratch/log"
    assert command[command.index("--profile-from-start") + 1] == "off"
