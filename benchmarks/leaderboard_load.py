"""What the leaderboard's pages cost over a large ledger while a run writes: `python -m benchmarks.leaderboard_load`.

The real command serves, another process writes, sixteen readers ask at times that a clock sets; server, database,
writer and readers share the machine. Latency counts from when a request was due.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import sqlalchemy
from sqlalchemy.orm import Session

from benchmarks.leaderboard_ledger import fill
from benchmarks.leaderboard_writer import READY
from benchmarks.open_load import Answered, Asked, open_load
from benchmarks.percentile import percentile_ms
from benchmarks.postgresql import SETTINGS, folder_for_postgresql, ledger_database
from candidates.ceilings import fingerprint_device
from candidates.ledger.find_standings import find_facets, find_standings
from candidates.ledger.ledger import Ledger
from candidates.ledger.standing_rows import StandingRow
from candidates.standing import Filters, InService, Sort
from leaderboard.filters import write_cursor

READERS, REQUESTS_PER_S, FACTS_PER_S = 16, 2.0, 5.0
MOST_P99_MS, MOST_BYTES = 100.0, 300_000
_SHARES = {"home": 0.4, "op": 0.3, "candidate": 0.3}
_START_LIMIT_S = _ENDING_LIMIT_S = 60.0


class Choices:
    """What readers may ask for; every candidate of the ledger as likely as any other, so that no cache helps."""

    def __init__(self, ledger: Ledger) -> None:
        with Session(ledger.engine) as session:
            self._candidates = list(session.scalars(sqlalchemy.select(StandingRow.candidate_id)))
            self._ops = session.execute(sqlalchemy.select(StandingRow.op, StandingRow.device_id).distinct()).all()
        facets = find_facets(ledger)
        self._filters = {
            "op": facets.ops,
            "device": facets.device_ids,
            "model": facets.served_models,
            "language": facets.languages,
            "agent": facets.agents,
            "endpoint": facets.endpoints,
            "class": facets.workload_classes,
            "state": ("wins", "all", "rejected", "undecided", "lost", "screened"),
        }
        # A small ledger has no second page.
        self._later = [query for sort in Sort for query in _later_pages(ledger, sort)] or [{}]

    def choose(self, chance: random.Random) -> Asked:
        page = chance.choices(list(_SHARES), list(_SHARES.values()))[0]
        match page:
            case "op":
                op, device_id = chance.choice(self._ops)
                return Asked(page=page, path=f"/ops/{quote(op, safe='')}?{urlencode({'device': device_id})}")
            case "candidate":
                return Asked(page=page, path=f"/candidates/{chance.choice(self._candidates)}")
        return Asked(page=page, path=self._home(chance))

    def _home(self, chance: random.Random) -> str:
        """A third each: as it is; filtered and ordered by chance; a later page of an order."""
        match chance.randrange(3):
            case 0:
                return "/"
            case 1:
                names = chance.sample(list(self._filters), chance.choice((1, 1, 2, 3)))
                query = {name: chance.choice(self._filters[name]) for name in names}
                return f"/?{urlencode({'sort': chance.choice(list(Sort)).value, **query})}"
        return f"/?{urlencode(chance.choice(self._later))}"


def _later_pages(ledger: Ledger, sort: Sort) -> Iterator[dict[str, str]]:
    after = None
    for _ in range(6):
        after = find_standings(ledger, Filters(), sort, serving=InService(), after=after).next
        if after is None:
            return
        yield {"sort": sort.value, "after": write_cursor(after)}


def measure(url: str, backend: str, seconds: float, folder: Path, seed: int) -> dict[str, Any]:
    choices, chance = Choices(Ledger(url)), random.Random(seed)
    warm = {each.page: each for each in (choices.choose(chance) for _ in range(99))}
    with _server(url, folder) as port, _writer(url) as written:
        for asked in warm.values():
            # What a process does at its first request of a kind alone is not asked about here.
            asyncio.run(
                open_load(
                    "127.0.0.1",
                    port,
                    partial(_always, asked),
                    readers=1,
                    seconds=1.0,
                    seed=seed,
                    requests_per_s=REQUESTS_PER_S,
                )
            )
        load = open_load(
            "127.0.0.1",
            port,
            choices.choose,
            readers=READERS,
            seconds=seconds,
            seed=seed,
            requests_per_s=REQUESTS_PER_S,
        )
        answers = asyncio.run(load)
    return {
        "pages": [_summary(page, backend, [each for each in answers if each.page == page]) for page in _SHARES],
        "writer": {"backend": backend, **written},
        "client_late_p99_ms": percentile_ms([each.late_s for each in answers], 0.99),
    }


def _always(asked: Asked, chance: random.Random) -> Asked:
    return asked


def _summary(page: str, backend: str, answers: list[Answered]) -> dict[str, Any]:
    latencies_s = [each.latency_s for each in answers]
    for each in sorted(answers, key=lambda each: each.latency_s)[-3:]:
        logging.info(
            "%s at %.1f s: %.0f ms, sent %.0f ms late, %s",
            page,
            each.due_s,
            1e3 * each.latency_s,
            1e3 * each.late_s,
            each.path,
        )
    return {
        "page": page,
        "backend": backend,
        "requests": len(answers),
        "p50_ms": percentile_ms(latencies_s, 0.5),
        "p99_ms": percentile_ms(latencies_s, 0.99),
        "max_ms": percentile_ms(latencies_s, 1.0),
        "bytes": max(each.bytes for each in answers),
        "errors": sum(each.status != 200 for each in answers),
    }


@contextmanager
def _server(url: str, folder: Path) -> Iterator[int]:
    """Yields its port once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {"COMPILER_AGENT_HOME": str(folder / "home"), "COMPILER_AGENT_LEDGER": url}
    command = [sys.executable, "-m", "compiler_agent", "leaderboard", "--port", str(port)]
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + _START_LIMIT_S
        while not _answers(port):
            if server.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the leaderboard did not start: {' '.join(command)} with the ledger {url}")
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def _writer(url: str) -> Iterator[dict[str, Any]]:
    """Yields what it wrote, which is there once it has ended."""
    command = [sys.executable, "-m", "benchmarks.leaderboard_writer", url, str(FACTS_PER_S)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE)
    written: dict[str, Any] = {}
    try:
        assert writer.stdout is not None
        is_heard, _, _ = select.select([writer.stdout], [], [], _START_LIMIT_S)
        if not is_heard:
            raise RuntimeError(f"the writer wrote nothing to {url} in {_START_LIMIT_S:g} s")
        if os.read(writer.stdout.fileno(), len(READY)) != READY:
            raise RuntimeError(f"the writer to {url} ended with {writer.wait(_ENDING_LIMIT_S)}")
        yield written
        writer.terminate()
        output, _ = writer.communicate(timeout=_ENDING_LIMIT_S)
    finally:
        writer.kill()
        writer.wait()
    if writer.returncode:
        raise RuntimeError(f"the writer to {url} ended with {writer.returncode}")
    written |= json.loads(output)


def _fill_once(url: str, counts: dict[str, int], mark: Path) -> None:
    """The ledger at `url`, unless the mark says that it was filled."""
    asked = json.dumps(counts, sort_keys=True)
    if not mark.exists():
        fill(Ledger(url), **counts)
        mark.write_text(asked)
    elif mark.read_text() != asked:
        raise SystemExit(f"{mark.parent} holds a ledger of {mark.read_text()}: give another --ledger")


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    counts = {name: getattr(arguments, name) for name in ("candidates", "measurements", "runs", "seed")}
    backends = ("sqlite", "postgresql") if arguments.backend == "both" else (arguments.backend,)
    results = []
    for backend in backends:
        place = folder / backend
        place.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            is_sqlite = backend == "sqlite"
            url = f"sqlite:///{place}/ledger.sqlite" if is_sqlite else stack.enter_context(ledger_database(place))
            _fill_once(url, counts, folder / f"{backend}.filled")
            results.append(measure(url, backend, arguments.seconds, folder, arguments.seed))
    pages = [page for result in results for page in result["pages"]]
    return {
        "pages": pages,
        "meets": all(
            page["p99_ms"] < MOST_P99_MS and page["bytes"] <= MOST_BYTES and not page["errors"] for page in pages
        ),
        "writers": [result["writer"] for result in results],
        "client_late_p99_ms": [result["client_late_p99_ms"] for result in results],
        "ledger": counts,
        "load": {"readers": READERS, "requests_per_s_of_each": REQUESTS_PER_S, "arrivals": "poisson"},
        "postgresql_settings": SETTINGS,
        "machine": fingerprint_device().model_dump(mode="json"),
        "load_average": os.getloadavg()[0],
        "command": " ".join(["python", "-m", "benchmarks.leaderboard_load", *sys.argv[1:]]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaderboard_load", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.add_argument("--backend", choices=("sqlite", "postgresql", "both"), default="both")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load on each backend")
    parser.add_argument("--candidates", type=int, default=100_000, metavar="N")
    parser.add_argument("--measurements", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--runs", type=int, default=1_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ledger", type=Path, metavar="FOLDER", help="keeps what was filled for the next time")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if arguments.ledger is not None:
        document = run(arguments, arguments.ledger.absolute())
    else:
        with folder_for_postgresql() as folder:
            document = run(arguments, folder)
    sys.stdout.write(json.dumps(document, indent=None if arguments.json else 2) + "\n")


if __name__ == "__main__":
    main()
