"""Counters of NVIDIA's Nsight Compute for agents' reports: how `ncu` is called, and what its table says.

The table is ncu's own (`ncu --csv --metrics ...`: a row a metric); the parser has not met one from a device of ours.
Counters need the driver's permission (NVreg_RestrictProfilingToAdminUsers=0, or root outside any container).
"""

import csv
import io
from collections.abc import Iterator, Sequence

from pydantic import Field

from candidates.record import Record

PROGRAM = "ncu"
METRICS = {
    "gpu__time_duration.sum": "time",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "of memory bandwidth",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "of L2 bandwidth",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "of L1 bandwidth",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "of a multiprocessor's busiest pipe",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "of tensor cores",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "of warps resident",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "of cycles issue an instruction",
    "l1tex__data_bank_conflicts_pipe_lsu.sum": "shared memory bank conflicts",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "sectors a global load",
}
"""By ncu's name; what some GPU does not have it leaves out or calls n/a."""
_MOST_KERNELS = 12
_MOST_READ_CHARACTERS = 4 << 20
_MOST_NAME_CHARACTERS = 120
_MOST_NOTE_CHARACTERS = 300
_ERROR = "==ERROR=="


class Counter(Record):
    metric: str
    value: float
    unit: str


class KernelCounters(Record):
    """Of one launch."""

    kernel: str
    launch: int = Field(ge=0)
    counters: tuple[Counter, ...]

    def as_text(self) -> str:
        shown = [
            f"{counter.value:.4g}{' ' + counter.unit if counter.unit not in ('', '%') else counter.unit} "
            f"{METRICS.get(counter.metric, counter.metric)}"
            for counter in self.counters
        ]
        return f"{self.kernel}: {', '.join(shown) or 'no counters'}"


class WorkloadCounters(Record):
    """Of one call, launch by launch."""

    workload: str
    kernels: tuple[KernelCounters, ...] = Field(min_length=1)


def counters_command(log_file: str, profiled: Sequence[str]) -> tuple[str, ...]:
    """`profiled` runs under it, and says itself where what counts begins (cudaProfilerStart); table and complaints go
    to `log_file`. Each launch runs alone and finds empty caches, which is ncu's default; clocks are left as they are.
    """
    options = (
        *("--csv", "--metrics", ",".join(METRICS), "--print-units", "base", "--log-file", log_file),
        *("--profile-from-start", "off", "--launch-count", str(_MOST_KERNELS), "--clock-control", "none"),
        *("--target-processes", "application-only"),
    )
    return (PROGRAM, *options, *profiled)


def why_no_counters(report: str) -> str:
    """Of a report without a table; one line."""
    if "ERR_NVGPUCTRPERM" in report:
        return (
            "the driver keeps counters for root: load its module with NVreg_RestrictProfilingToAdminUsers=0 "
            "(https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
        )
    lines = report.splitlines()
    errors = [line.removeprefix(_ERROR).strip() for line in lines if line.startswith(_ERROR)]
    if errors:
        return f"{PROGRAM}: {errors[0]}"[:_MOST_NOTE_CHARACTERS]
    if "No kernels were profiled" in report:
        return f"{PROGRAM} saw no launch in the call"
    return f"{PROGRAM} wrote no table" if report.strip() else f"{PROGRAM} wrote no report"


def read_counters(output: str) -> tuple[KernelCounters, ...]:
    """In the order of launches, the first ones of very many. Empty where the output holds no table."""
    launches: dict[tuple[int, str], list[Counter]] = {}
    for row in _rows(output[:_MOST_READ_CHARACTERS]):
        try:
            key = int(row["ID"]), row["Kernel Name"][:_MOST_NAME_CHARACTERS]
            counter = Counter(
                metric=row["Metric Name"],
                value=float(row["Metric Value"].replace(",", "")),
                unit=row["Metric Unit"] or "",
            )
        except (KeyError, TypeError, AttributeError, ValueError):
            continue  # a rule's row, a metric that this GPU lacks, or a line of the program's own
        launches.setdefault(key, []).append(counter)
    return tuple(
        KernelCounters(kernel=kernel, launch=launch, counters=tuple(counters))
        for (launch, kernel), counters in list(launches.items())[:_MOST_KERNELS]
        if launch >= 0
    )


def _rows(output: str) -> Iterator[dict[str, str]]:
    lines = output.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID",') and '"Metric Value"' in line), None)
    if start is None:
        return
    try:
        yield from csv.DictReader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"'))))
    except csv.Error:
        return
