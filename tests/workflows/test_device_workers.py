"""Processes that serve a device on one machine measure one after the other, whatever queue and home they have.

What is looked at is when measurements began and ended, by the clock of the machine.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.null_device.request import make_null_request
from benchmarks.null_device.services import QUEUES
from benchmarks.null_device.stack import start_null_run
from candidates.ledger.ledger import Ledger
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker import connect
from tests.workflows.null_runs import null_worker, settings_of

OPTIONS = ("--generation=5", "--measuring-s=0.05", "--source-bytes=500")
HOT_OPS, CANDIDATES = 2, 10
PATIENCE_S = 120.0
ENOUGH = 10


class Home:
    """One with a server of its own; `workers` are the queues of each process that serves them."""

    def __init__(self, folder: Path, machine: Path, *workers: Sequence[str]) -> None:
        folder.mkdir()
        machine.mkdir(exist_ok=True)
        self._settings, self._machine, self._workers = settings_of(folder), machine, workers

    @contextlib.contextmanager
    def serving(self, times: Path) -> Iterator[None]:
        options = [*OPTIONS, f"--times={times}"]
        with contextlib.ExitStack() as stack:
            self._address = stack.enter_context(temporal_server(self._settings))
            for queues in self._workers:
                worker = null_worker(self._settings, self._address, options, queues, self._machine)
                stack.enter_context(worker)
            yield

    async def perform_run(self, seed: int) -> None:
        client, ledger = await connect(self._address, "default"), Ledger(self._settings.ledger_url)
        request = make_null_request(seed, hot_ops=HOT_OPS, candidates_per_op=CANDIDATES)
        handle = await start_null_run(client, ledger, request, f"run-{seed}")
        await asyncio.wait_for(handle.result(), PATIENCE_S)
        ledger.engine.dispose()


Measurements = list[tuple[int, int, int]]
"""Process, begin and end of each, by their begin."""


def measure(runs_at: Sequence[Home], times: Path, until: Callable[[Measurements], bool]) -> Measurements:
    """A run at each at once, again and again: the processes do not begin at the same time."""

    async def perform(first_seed: int) -> None:
        await asyncio.gather(*(home.perform_run(seed) for seed, home in enumerate(runs_at, first_seed)))

    with contextlib.ExitStack() as stack:
        for home in dict.fromkeys(runs_at):
            stack.enter_context(home.serving(times))
        deadline = time.monotonic() + PATIENCE_S
        for first_seed in itertools.count(1, len(runs_at)):
            asyncio.run(perform(first_seed))
            lines = [tuple(map(int, line.split())) for line in times.read_text().splitlines()]
            measured = sorted(lines, key=lambda line: line[1])
            if until(measured):
                return measured
            assert time.monotonic() < deadline, measured


def processes(measured: Measurements) -> int:
    return len({process for process, *_ in measured})


def overlaps(measured: Measurements) -> int:
    """How many began before the one before them had ended."""
    return sum(later[1] < earlier[2] for earlier, later in itertools.pairwise(measured))


def turns(measured: Measurements) -> int:
    """How often another process measured next."""
    return sum(later[0] != earlier[0] for earlier, later in itertools.pairwise(measured))


@pytest.mark.slow
def test_workers_of_one_queue_and_of_two_homes_never_measure_at_the_same_time(tmp_path):
    """`max_concurrent_activities` bounds each process alone."""
    one = Home(tmp_path / "one", tmp_path / "machine", QUEUES, ["device"])
    other = Home(tmp_path / "other", tmp_path / "machine", QUEUES)

    def has_enough(measured: Measurements) -> bool:
        return processes(measured) == 3 and turns(measured) > ENOUGH

    assert overlaps(measure([one, one, other], tmp_path / "times", has_enough)) == 0


@pytest.mark.slow
def test_two_machines_do_measure_at_the_same_time(tmp_path):
    """As these homes are, whose locks lie in folders of their own; else nothing would follow from the test above."""
    homes = [Home(tmp_path / name, tmp_path / f"machine-of-{name}", QUEUES) for name in ("one", "other")]
    assert measure(homes, tmp_path / "times", lambda measured: overlaps(measured) > ENOUGH)
