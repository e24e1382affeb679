"""How many candidates the search agent tries a minute, and what its time goes to: `python -m benchmarks.search --json`.

Temporal server, workers, compiler, judge, sandbox and clock are the real ones; the ops are small, at the sizes of
decode. What PyTorch needs for them, which is measured once for each op and kept, is measured before.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from candidates.ceilings import fingerprint_device
from candidates.error_bound import derive_error_bound
from candidates.ledger.ledger import Ledger
from candidates.measurement import Stage
from candidates.run import TuneRequest
from candidates.spending import ModelBudget
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Rejected
from compiler_agent.log_lines import FORMAT, LogFormat
from compiler_agent.run_place import open_run_place
from compiler_agent.settings import Settings
from compiler_agent.wiring import open_workbench
from compiler_agent.worker import connect
from workflows import queues
from workflows.kernel_search import KernelSearch
from workflows.payloads import SearchInput

FEWEST_CANDIDATES_PER_MINUTE = 60.0
MOST_SHARE_OF_OTHER_TIME = 0.10
HIDDEN, HEADS = 4096, 32
ROWS, HIDDEN_ROWS = (1, 8, 32), 5
DEPTH = 1024
"""And columns of the linear layer, whose weights fit the caches."""
_SPAN = re.compile(r"(compiling|judging|screening) took (\d+\.\d+) s")

REFERENCES = {
    "rmsnorm_residual": """
def reference(x, residual, weight):
    total = x + residual
    return total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-5) * weight, total
""",
    "swiglu": """
def reference(gate, up):
    return torch.nn.functional.silu(gate) * up
""",
    "rope": """
def reference(query, cosine, sine):
    half = query.shape[-1] // 2
    turned = torch.cat((-query[..., half:], query[..., :half]), dim=-1)
    return query * cosine + turned * sine
""",
    "linear": """
def reference(x, weight):
    return torch.nn.functional.linear(x, weight)
""",
    "softmax": """
def reference(scores):
    return torch.softmax(scores, -1)
""",
}


def make_tasks(device_id: str) -> dict[str, KernelTask]:
    row, heads = ("rows", HIDDEN), ("rows", HEADS, HIDDEN // HEADS)
    angles = ("rows", 1, HIDDEN // HEADS)
    inputs = {
        "rmsnorm_residual": (_activation("x", row), _activation("residual", row), _weight("weight", (HIDDEN,))),
        "swiglu": (_activation("gate", row), _activation("up", row)),
        "rope": (_activation("query", heads), _activation("cosine", angles), _activation("sine", angles)),
        "softmax": (_activation("scores", row),),
        "linear": (_activation("x", ("rows", DEPTH)), _weight("weight", (DEPTH, DEPTH))),
    }
    outputs = {
        "rmsnorm_residual": (_tensor("y", row), _tensor("total", row)),
        "rope": (_tensor("y", heads),),
        "linear": (_tensor("y", ("rows", DEPTH)),),
    }
    workloads = [Workload(axes={"rows": rows}, calls_per_hour=1e6 / rows) for rows in ROWS]
    hidden = Workload(axes={"rows": HIDDEN_ROWS}, calls_per_hour=0.0, is_hidden=True)
    tasks = {}
    for op, reference in REFERENCES.items():
        task = KernelTask(
            op=op,
            site="benchmarks.search",
            level=SiteLevel.LEAF,
            reference=reference,
            inputs=inputs[op],
            outputs=outputs.get(op, (_tensor("y", row),)),
            axes=("rows",),
            workloads=(*workloads, hidden),
            error_bound=ErrorBound(scaled_error=0.0),
            device_id=device_id,
        )
        tasks[op] = task.model_copy(update={"error_bound": derive_error_bound(task)})
    return tasks


def _tensor(name: str, shape: tuple[int | str, ...]) -> TensorSpec:
    return TensorSpec(name=name, element_type=ElementType.FLOAT32, shape=shape, dim_order=tuple(range(len(shape))))


def _activation(name: str, shape: tuple[int | str, ...]) -> InputSpec:
    return InputSpec(**_tensor(name, shape).model_dump(), role=InputRole.ACTIVATION)


def _weight(name: str, shape: tuple[int, ...]) -> InputSpec:
    return InputSpec(**_tensor(name, shape).model_dump(), role=InputRole.PARAMETER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Of work, by the system's clock."""

    work: str
    from_s: float
    to_s: float


def wait_for_workers(logs: Path, count: int) -> None:
    """Until all of them serve."""
    deadline_s = time.monotonic() + 120.0
    while sum("serving " in file.read_text() for file in logs.glob("*worker.log")) < count:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"workers do not serve: see {logs}")
        time.sleep(0.2)


def read_spans(logs: Path) -> list[Span]:
    """From the log lines of workers; waiting for one's turn is part of a span, since others work meanwhile."""
    spans = []
    for file in logs.glob("*worker.log"):
        for line in file.read_text().splitlines():
            record = json.loads(line) if line.startswith("{") else {}
            if found := _SPAN.fullmatch(record.get("message", "")):
                to_s = datetime.fromisoformat(record["time"]).timestamp()
                spans.append(Span(work=found[1], from_s=to_s - float(found[2]), to_s=to_s))
    return spans


def covered_s(spans: Iterable[Span], within: Span) -> float:
    """Seconds of `within` in which at least one span runs."""
    total_s, reached_s = 0.0, within.from_s
    for span in sorted(spans, key=lambda span: span.from_s):
        end_s = min(span.to_s, within.to_s)
        total_s += max(0.0, end_s - max(span.from_s, reached_s))
        reached_s = max(reached_s, end_s)
    return total_s


async def search(settings: Settings, ledger: Ledger, address: str, task: KernelTask, attempts: int) -> Span:
    """From the start of its workflow to its end."""
    client = await connect(address, settings.temporal_namespace)
    request = TuneRequest(task_id=task.id, op=task.op, attempts=attempts)
    run_id = ledger.open_run(request, f"search-{task.op.replace('_', '-')}")
    ask = SearchInput(
        run_id=run_id,
        device_id=task.device_id,
        task_id=task.id,
        op=task.op,
        agents=("search",),
        models=ModelBudget(),
        seconds=600.0,
        attempts=attempts,
        last_stage=Stage.SCREEN,
    )
    began_s = time.time()
    await client.execute_workflow(KernelSearch.run, ask, id=run_id, task_queue=queues.CONTROL)
    return Span(work=task.op, from_s=began_s, to_s=time.time())


def report(ledger: Ledger, task: KernelTask, whole: Span, spans: Sequence[Span]) -> dict[str, Any]:
    attempts = [attempt for run in ledger.runs() for attempt in ledger.attempts(run.run_id, task.id)]
    [end] = [end for run in ledger.runs() for end in ledger.search_ends(run.run_id) if end.task_id == task.id]
    wall_s = whole.to_s - whole.from_s
    return {
        "op": task.op,
        "candidates": len(attempts),
        "rejected": sum(isinstance(attempt.verdict, Rejected) for attempt in attempts),
        "best_speedup": max((attempt.speedup or 0.0 for attempt in attempts), default=None),
        "stopped": end.stop_reason,
        "wall_s": round(wall_s, 2),
        "share_of_time": {
            work: round(covered_s([span for span in spans if span.work == work], whole) / wall_s, 3)
            for work in ("compiling", "judging", "screening")
        },
        "other_s": round(wall_s - covered_s(spans, whole), 2),
    }


def run(arguments: argparse.Namespace, home: Path) -> dict[str, Any]:
    settings = Settings(
        home=home, ledger_url=f"sqlite:///{home / 'ledger.sqlite'}", temporal_address=None, temporal_namespace="default"
    )
    os.environ[FORMAT] = LogFormat.JSON
    fingerprint, ledger = fingerprint_device(), Ledger(settings.ledger_url)
    ledger.put_device(fingerprint)
    tasks = [task for op, task in make_tasks(fingerprint.id).items() if op in arguments.ops]
    began_s = time.monotonic()
    with open_workbench(settings) as bench:
        for task in tasks:
            ledger.put_task(task)
            benchmark = bench.benchmark(task)
            assert benchmark is not None
            benchmark.fix_best_baselines(task, threads=1)
    baselines_s = time.monotonic() - began_s
    searches = []
    with open_run_place(settings) as place:
        wait_for_workers(settings.logs, len(place.workers))
        for task in tasks:
            whole = asyncio.run(search(settings, ledger, place.address, task, arguments.attempts))
            searches.append(report(ledger, task, whole, read_spans(settings.logs)))
    wall_s = sum(each["wall_s"] for each in searches)
    candidates = sum(each["candidates"] for each in searches)
    per_minute, other = 60 * candidates / wall_s, sum(each["other_s"] for each in searches) / wall_s
    return {
        "candidates_per_minute": round(per_minute, 1),
        "share_of_time_not_compiling_judging_or_measuring": round(other, 3),
        "meets": per_minute >= FEWEST_CANDIDATES_PER_MINUTE and other < MOST_SHARE_OF_OTHER_TIME,
        "candidates": candidates,
        "wall_s": round(wall_s, 1),
        "searches": searches,
        "baselines_s": round(baselines_s, 1),
        "machine": fingerprint.model_dump(mode="json"),
        "load_average": os.getloadavg()[0],
        "command": " ".join(["python", "-m", "benchmarks.search", *sys.argv[1:]]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.add_argument("--attempts", type=int, default=60, metavar="N", help="candidates for each op at most")
    parser.add_argument("--ops", nargs="+", choices=REFERENCES, default=tuple(REFERENCES))
    parser.add_argument("--home", type=Path, help="a folder to keep; a temporary one by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="search-home-") as folder:
        document = run(arguments, (arguments.home or Path(folder)).absolute())
    sys.stdout.write(json.dumps(document, indent=None if arguments.json else 2) + "\n")


if __name__ == "__main__":
    main()
