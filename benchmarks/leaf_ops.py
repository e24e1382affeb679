"""Leaf ops of a Llama with kernels of the search agent: `python -m benchmarks.leaf_ops --json`.

Each op becomes two tasks of the project's own extraction, one of decode and one of prefill sizes (decision 0004). A
task is tuned as `compiler-agent tune` does it, through the real compiler, sandbox, judge and benchmark. Figures are of
the best kernel's confirmation, or of its race where it was not confirmed.
"""

import argparse
import json
import logging
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.leaf_sites import DECODE_ROWS, FUSED, LEAF_OPS, OTHERS, PREFILL_ROWS, capture_leaf_op
from candidates.ceilings import fingerprint_device
from candidates.extraction import extract_task
from candidates.ledger.ledger import Ledger
from candidates.measurement import Baseline, Measurement, Stage, WorkloadMeasurement
from candidates.run import TuneReport, TuneRequest
from candidates.task import KernelTask
from candidates.whole_file import write_whole
from compiler_agent.local_run import perform_run
from compiler_agent.outcome import progress_console
from compiler_agent.settings import Settings, read_settings

_LOG = logging.getLogger(__name__)

PHASES = {"decode": DECODE_ROWS, "prefill": PREFILL_ROWS}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PLAIN = (Baseline.EAGER, Baseline.EAGER_OUT, Baseline.COMPILE)
"""What a user has without looking for a fused op."""


def make_task(home: Path, op: str, dtype: str, rows: Sequence[int], threads: int) -> KernelTask:
    """As it was made for this home before: for prefill that takes a minute."""
    kept = home / "tasks" / f"{op}-{dtype}-{'-'.join(map(str, rows))}-{threads}.json"
    if kept.exists():
        return KernelTask.model_validate_json(kept.read_text())
    model, captured = capture_leaf_op(op, DTYPES[dtype], rows)
    device_id = fingerprint_device().id
    task = extract_task(model, captured, time_us=lambda _: 1.0, device_id=device_id, threads=threads)
    if not isinstance(task, KernelTask):
        raise RuntimeError(f"{op} in {dtype} gives no task: {task.reason}")
    write_whole(kept, task.model_dump_json().encode())
    return task


def tune(settings: Settings, task: KernelTask, arguments: argparse.Namespace) -> tuple[TuneReport, Measurement | None]:
    """What an equal search has found before, if one has ended. None: no kernel was measured beyond screening."""
    ledger = Ledger(settings.ledger_url)
    ledger.put_task(task)
    request = TuneRequest(task_id=task.id, op=task.op, search_s=arguments.seconds, attempts=arguments.attempts)
    report = ledger.latest_report(request) or perform_run(settings, ledger, request, progress_console)
    assert isinstance(report, TuneReport)
    if report.candidate is None:
        return report, None
    stages = (
        ledger.measurement(report.run_id, task.id, report.candidate, stage) for stage in (Stage.CONFIRM, Stage.RACE)
    )
    return report, next((measured for measured in stages if measured is not None), None)


def rows_of(op: str, dtype: str, task: KernelTask, report: TuneReport, measured: Measurement | None) -> list[Any]:
    known = {} if measured is None else {each.workload: each for each in measured.workloads}
    return [
        {
            "op": op,
            "dtype": dtype,
            "rows": math.prod(workload.axes.values()),
            **_figures(known.get(workload.name)),
            "stage": None if measured is None else measured.stage.value,
            "decision": report.decision,
        }
        for workload in sorted(task.public_workloads, key=lambda each: math.prod(each.axes.values()))
    ]


def _figures(told: WorkloadMeasurement | None) -> dict[str, Any]:
    if told is None:
        return {"speedup_over_best": None, "interval": None, "share_of_floor": None, "speedup_over_plain": None}
    plain_us = min(told.baselines_us[each] for each in PLAIN if each in told.baselines_us)
    over_plain = 1.0 if told.best_baseline in PLAIN else plain_us / told.baselines_us[told.best_baseline]
    return {
        "speedup_over_best": round(told.speedup_over_best, 3),
        "interval": [round(bound, 3) for bound in told.interval],
        "share_of_floor": round(told.share_of_floor, 3),
        "speedup_over_plain": round(told.speedup_over_best * over_plain, 3),
        "best_baseline": told.best_baseline.value,
        "baselines_us": {name.value: round(time_us, 2) for name, time_us in told.baselines_us.items()},
        "candidate_us": round(told.candidate_us, 2),
        "kernel_only_us": round(told.kernel_only_us, 2),
    }


def geometric_means(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Over the ops that are no product, by phase and element type; `slowest` is the least of all rows."""
    for phase, sizes in PHASES.items():
        for dtype in (*DTYPES, None):
            held = [
                row
                for row in rows
                if row["op"] in FUSED and row["rows"] in sizes and (dtype is None or row["dtype"] == dtype)
            ]
            if not held or any(row["speedup_over_best"] is None for row in held):
                continue
            yield {
                "phase": phase,
                "dtype": dtype or "both",
                "rows": len(held),
                "over_best": _geometric_mean([row["speedup_over_best"] for row in held]),
                "over_plain": _geometric_mean([row["speedup_over_plain"] for row in held]),
                "slowest_over_plain": min(row["speedup_over_plain"] for row in held),
            }


def _geometric_mean(values: Sequence[float]) -> float:
    return round(math.exp(sum(map(math.log, values)) / len(values)), 3)


def run(arguments: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    rows: list[Any] = []
    for op in arguments.op or [name for name in LEAF_OPS if name not in OTHERS]:
        for dtype in arguments.dtype or DTYPES:
            for phase, sizes in PHASES.items():
                asked = [size for size in sizes if size in (arguments.rows or _usual_rows(op))]
                if not asked:
                    continue
                task = make_task(settings.home, op, dtype, asked, arguments.threads)
                rows += rows_of(op, dtype, task, *tune(settings, task, arguments))
                _LOG.info("%s %s %s: %s", op, dtype, phase, [row["speedup_over_best"] for row in rows[-len(asked) :]])
    return {
        "rows": rows,
        "geometric_means": list(geometric_means(rows)),
        "threads": arguments.threads,
        "machine": fingerprint_device().model_dump(mode="json"),
        "load_average": os.getloadavg()[0],
        "command": " ".join(["python", "-m", "benchmarks.leaf_ops", *sys.argv[1:]]),
    }


def _usual_rows(op: str) -> tuple[int, ...]:
    """A linear layer over many rows is what libraries do well."""
    return DECODE_ROWS if op == "linear" else (*DECODE_ROWS, *PREFILL_ROWS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaf_ops", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.add_argument("--op", action="append", choices=tuple(LEAF_OPS), help="may be given again; default: Llama's")
    parser.add_argument("--dtype", action="append", choices=tuple(DTYPES), help="may be given again; default: both")
    parser.add_argument("--rows", action="append", type=int, choices=(*DECODE_ROWS, *PREFILL_ROWS), metavar="N")
    parser.add_argument("--seconds", type=float, default=60.0, help="search time for each task")
    parser.add_argument("--attempts", type=int, default=24, help="kernels for each task, at most")
    parser.add_argument("--threads", type=int, default=1, help="of kernels and baselines")
    parser.add_argument(
        "--home", type=Path, metavar="FOLDER", help="keep the ledger there, and go on with what it holds"
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        home = (arguments.home or Path(folder)).absolute()
        settings = replace(read_settings(), home=home, ledger_url=f"sqlite:///{home / 'ledger.sqlite'}")
        home.mkdir(parents=True, exist_ok=True)
        document = run(arguments, settings)
    sys.stdout.write(json.dumps(document, indent=None if arguments.json else 2) + "\n")


if __name__ == "__main__":
    main()
