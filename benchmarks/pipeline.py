"""What the whole stack around agents and device costs: `python -m benchmarks.pipeline`.

Workflow server, one worker for each queue, ledger and run are the real ones; agents, compiler, judge and clock take no
time (`null_device`). What is measured is everything else.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import func, select
from sqlalchemy.orm import Session
from temporalio.client import Client

from benchmarks.null_device.request import make_null_request
from benchmarks.null_device.services import QUEUES
from benchmarks.null_device.stack import null_workers, start_null_run
from benchmarks.postgresql import SETTINGS, folder_for_postgresql, ledger_database
from candidates.ceilings import fingerprint_device
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import AttemptRow
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker import connect

_LOG = logging.getLogger(__name__)

RUN_ID, NAMESPACE = "run-of-the-pipeline", "default"
FEWEST_EVALUATIONS_PER_S = 20.0
_LOOK_EVERY_S = 1.0
_WARM_SHARE = 0.2
"""Of the candidates; memory that a worker takes up to there is what it needs, and growth what it takes from there until
all were tried. What ships afterwards is done once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Of a process and those below it."""

    cpu_s: float
    memory_bytes: int


class Sampler:
    """Looks at the processes of the stack while a run goes on."""

    def __init__(self, ledger: Ledger, processes: dict[str, psutil.Process], candidates: int) -> None:
        """What a process starts counts as its own."""
        self._ledger, self._processes, self._candidates = ledger, processes, candidates
        self._first, self._warm = dict[str, Use](), dict[str, Use]()
        self._tried, self._last = dict[str, Use](), dict[str, Use]()
        self._began_s, self._machine_s = time.monotonic(), _busy_s_of_machine()

    async def look_on(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_LOOK_EVERY_S)

    def look(self) -> None:
        self._last = {name: _use_of(process) for name, process in self._processes.items()}
        self._first = self._first or self._last
        done = _count_attempts(self._ledger)
        if not self._warm and done >= _WARM_SHARE * self._candidates:
            self._warm = self._last
            _LOG.info("warm after %.0f s", time.monotonic() - self._began_s)
        if not self._tried and done >= self._candidates:
            self._tried = self._last

    def uses(self) -> list[dict[str, Any]]:
        wall_s = time.monotonic() - self._began_s
        return [
            {
                "process": name,
                "cores": round((last.cpu_s - self._first[name].cpu_s) / wall_s, 3),
                "memory_bytes": last.memory_bytes,
                "memory_growth_bytes": self._tried[name].memory_bytes - self._warm[name].memory_bytes,
            }
            for name, last in self._last.items()
        ]

    def busy_cores(self) -> float:
        """Of the machine, whoever keeps them busy."""
        return round((_busy_s_of_machine() - self._machine_s) / (time.monotonic() - self._began_s), 2)


def _use_of(process: psutil.Process) -> Use:
    spent = process.cpu_times()
    cpu_s, memory_bytes = spent.user + spent.system + spent.children_user + spent.children_system, 0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            memory_bytes += each.memory_info().rss
            if each is not process:
                cpu_s += sum(each.cpu_times()[:2])
    return Use(cpu_s=cpu_s, memory_bytes=memory_bytes)


def _busy_s_of_machine() -> float:
    spent = psutil.cpu_times()
    return float(sum(spent) - spent.idle - spent.iowait - spent.guest - spent.guest_nice)


def _count_attempts(ledger: Ledger) -> int:
    with Session(ledger.reader) as session:
        counted = select(func.count()).select_from(AttemptRow).where(AttemptRow.run_id == RUN_ID)
        return session.scalars(counted).one()


def _servers() -> dict[str, psutil.Process]:
    """Workflow server and database, which run below this process."""
    return {child.name(): child for child in psutil.Process().children() if child.name() in ("temporal", "postgres")}


async def _drive(
    settings: Settings, address: str, arguments: argparse.Namespace, processes: dict[str, psutil.Process]
) -> dict[str, Any]:
    client, ledger = await connect(address, NAMESPACE), Ledger(settings.ledger_url)
    per_op = arguments.candidates // arguments.hot_ops
    request = make_null_request(arguments.seed, hot_ops=arguments.hot_ops, candidates_per_op=per_op)
    sampler = Sampler(ledger, processes, per_op * arguments.hot_ops)
    began_s = time.monotonic()
    handle = await start_null_run(client, ledger, request, RUN_ID)
    looking = asyncio.ensure_future(sampler.look_on())
    try:
        await handle.result()
    finally:
        looking.cancel()
    wall_s = time.monotonic() - began_s
    sampler.look()
    done, uses = _count_attempts(ledger), sampler.uses()
    return {
        "candidates": done,
        "hot_ops": len(ledger.search_ends(RUN_ID)),
        "evaluations_per_s": round(done / wall_s, 1),
        "worker_memory_growth_bytes": max(each["memory_growth_bytes"] for each in uses if each["process"] in QUEUES),
        "wall_s": round(wall_s, 1),
        "processes": uses,
        "busy_cores": sampler.busy_cores(),
        "workflows": await _histories(client),
    }


async def _histories(client: Client) -> list[dict[str, Any]]:
    """The longest history of each kind of workflow, and how many there are."""
    longest: dict[str, dict[str, Any]] = {}
    async for workflow in client.list_workflows():
        told = await client.get_workflow_handle(workflow.id, run_id=workflow.run_id).describe()
        size_bytes = told.raw_description.workflow_execution_info.history_size_bytes
        known = longest.setdefault(told.workflow_type, {"workflow": told.workflow_type, "count": 0, "most_events": 0})
        known["count"] += 1
        if told.history_length >= known["most_events"]:
            known |= {"most_events": told.history_length, "most_bytes": size_bytes}
    return list(longest.values())


@contextmanager
def _database(backend: str, folder: Path) -> Iterator[str]:
    if backend == "sqlite":
        yield f"sqlite:///{folder / 'ledger.sqlite'}"
        return
    with folder_for_postgresql() as place, ledger_database(place / "server") as url:
        yield url


def _size_of_database(url: str, home: Path) -> int:
    if url.startswith("sqlite"):
        return _size_of(*home.glob("ledger.sqlite*"))
    with Session(Ledger(url).reader) as session:
        return session.scalars(select(func.pg_database_size(func.current_database()))).one()


def _size_of(*paths: Path) -> int:
    """Of files, and of all files below folders."""
    files = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    return sum(file.stat().st_size for file in files)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pipeline-home-")))
        url = stack.enter_context(_database(arguments.backend, home))
        settings = Settings(home=home, ledger_url=url, temporal_address=None, temporal_namespace=NAMESPACE)
        Ledger(url)  # before the workers: whoever is first makes the tables
        address = stack.enter_context(temporal_server(settings))
        options = [f"--generation={arguments.generation}", f"--source-bytes={arguments.source_bytes}"]
        with null_workers(settings, address, QUEUES, options) as workers:
            processes = {worker.queue: psutil.Process(worker.process.pid) for worker in workers} | _servers()
            document = asyncio.run(_drive(settings, address, arguments, processes))
        statements = {name: int((settings.logs / f"statements-{name}").read_text()) for name in QUEUES}
        size_bytes = _size_of_database(url, home)
        document["database"] = {
            "backend": arguments.backend,
            "statements_per_candidate": round(sum(statements.values()) / document["candidates"], 1),
            "statements_per_s": round(sum(statements.values()) / document["wall_s"], 1),
            "bytes": size_bytes,
        }
        document["blob_bytes"] = _size_of(settings.home / "blobs")
        document["temporal_bytes"] = _size_of(*home.glob("temporal.sqlite*"))
    return document | {
        "saturates": max(document["processes"], key=lambda each: each["cores"])["process"],
        "meets": document["evaluations_per_s"] >= FEWEST_EVALUATIONS_PER_S,
        "generation": arguments.generation,
        "source_bytes": arguments.source_bytes,
        "postgresql_settings": SETTINGS if arguments.backend == "postgresql" else None,
        "machine": fingerprint_device().model_dump(mode="json"),
        "command": " ".join(["python", "-m", "benchmarks.pipeline", *sys.argv[1:]]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.add_argument("--hot-ops", type=int, default=100, metavar="N")
    parser.add_argument("--candidates", type=int, default=10_000, metavar="N", help="of all hot ops together")
    parser.add_argument("--generation", type=int, default=10, metavar="N", help="candidates that an activity carries")
    parser.add_argument("--source-bytes", type=int, default=6_000, metavar="N")
    parser.add_argument("--backend", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sys.stdout.write(json.dumps(run(arguments), indent=None if arguments.json else 2) + "\n")


if __name__ == "__main__":
    main()
