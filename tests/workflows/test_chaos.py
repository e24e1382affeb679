"""A run whose server, database and workers are killed again and again ends as if nobody had touched it."""

import asyncio
import contextlib
import logging
import os
import random
import subprocess
import sys
import time

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from benchmarks.null_device.request import make_null_request
from benchmarks.null_device.services import QUEUES
from benchmarks.null_device.stack import null_workers, start_null_run
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import AttemptRow
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker import connect
from tests.workflows.chaos import picture_of, programs_of
from tests.workflows.restarted import Service, open_folder

RUN_ID, KILLS, SEED = "run", 30, 8
HOT_OPS, CANDIDATES_PER_OP = 6, 40
REQUEST = make_null_request(SEED, hot_ops=HOT_OPS, candidates_per_op=CANDIDATES_PER_OP, approve_automatically=True)
OPTIONS = ("--generation=4", "--sandboxed", "--measuring-s=0.01", "--source-bytes=1000")
KEPT = ("compiler-agent-device.lock", "torchinductor_")
"""What stays among the temporary files of a machine: the device's lock, and torch's cache."""
STALLED_S = 90.0
"""A try whose worker was killed is noticed after 20 s; this is longer than anything that happens here."""


def begin(address, ledger):
    async def start():
        await start_null_run(await connect(address, "default"), ledger, REQUEST, RUN_ID)

    asyncio.run(start())


def await_work(address, ledger, least):
    """Until so many candidates were tried; without a number, until the run has ended."""
    seen, since_s = 0, time.monotonic()
    while True:
        report, done = asked(lambda: ledger.report(RUN_ID)), asked(lambda: count_attempts(ledger)) or 0
        if report is not None or (least is not None and done >= least):
            return
        if done > seen:
            seen, since_s = done, time.monotonic()
        if time.monotonic() - since_s > STALLED_S:
            raise AssertionError(f"the run does not go on after {seen}: {asyncio.run(state_of(address))}")
        time.sleep(0.05)


async def state_of(address):
    client = await connect(address, "default")
    states = [await client.get_workflow_handle(each.id).describe() async for each in client.list_workflows()]
    return [(state.id, state.status, state.raw_description.pending_activities) for state in states]


def undisturbed(folder):
    """The picture of the ledger of such a run."""
    home = folder / "undisturbed"
    settings = Settings(
        home=home,
        ledger_url=f"sqlite:///{home / 'ledger.sqlite'}",
        temporal_address=None,
        temporal_namespace="default",
    )
    ledger = Ledger(settings.ledger_url)
    with temporal_server(settings) as address, null_workers(settings, address, QUEUES, OPTIONS):
        begin(address, ledger)
        await_work(address, ledger, None)
    return picture_of(ledger)


def asked(question):
    """Its answer; None while the database is away."""
    with contextlib.suppress(SQLAlchemyError):
        return question()
    return None


def count_attempts(ledger):
    with Session(ledger.reader) as session:
        return session.scalars(select(func.count()).select_from(AttemptRow)).one()


def disturb(service, ledger):
    """Kills all programs in turn, in a random order, each when a random share of the work is done; the last ones while
    the run ships."""
    chance, names, all_of_it = random.Random(SEED), list(service.programs), HOT_OPS * CANDIDATES_PER_OP
    victims = [names[number % len(names)] for number in range(KILLS)]
    chance.shuffle(victims)
    moments = sorted(chance.uniform(0.02, 0.98) * all_of_it for _ in victims[3:])
    for victim, moment in zip(victims, [*moments, *[all_of_it] * 3], strict=True):
        await_work(service.address, ledger, moment)
        time.sleep(chance.uniform(0.0, 0.3))
        while not service.programs[victim].kill():
            time.sleep(0.01)
        logging.info("%s killed at %.0f", victim, moment)


@pytest.fixture
def folder():
    with open_folder() as folder:
        yield folder


@pytest.mark.slow
def test_chaos_run_equals_undisturbed(folder, tmp_path):
    expected = undisturbed(tmp_path)
    service = Service(folder, *OPTIONS)
    with service.running():
        ledger = Ledger(service.settings.ledger_url)
        begin(service.address, ledger)
        disturb(service, ledger)
        await_work(service.address, ledger, None)
        found = picture_of(ledger)
        ledger.engine.dispose()
    for table, facts in expected.items():
        assert found[table] == facts, table
    assert not programs_of(folder)
    sweep = "from kernel_sandbox.bubblewrap import BubblewrapSandbox; BubblewrapSandbox().check()"
    subprocess.run([sys.executable, "-c", sweep], check=True, env=os.environ | {"TMPDIR": str(service.temporary)})
    left = [path for path in folder.rglob("*") if path.name.startswith((".partial-", ".unfinished-", ".current-"))]
    left += [path for path in service.temporary.iterdir() if not path.name.startswith(KEPT)]
    assert not left
