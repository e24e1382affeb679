"""Runs that earlier workers began go on with these: every stored history replays.

What is stored is recorded by `python -m tests.workflows.record_histories`.
"""

import asyncio
import gzip

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from compiler_agent.worker import WORKFLOWS
from tests.workflows.record_histories import HISTORIES

STORED = sorted(HISTORIES.glob("*.json.gz"))
MOST_BYTES = 300_000


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name.split(".")[0])
def test_stored_history_replays(path):
    history = WorkflowHistory.from_json(path.name, gzip.decompress(path.read_bytes()).decode())
    replayer = Replayer(workflows=WORKFLOWS, data_converter=pydantic_data_converter)
    asyncio.run(replayer.replay_workflow(history))


def test_every_workflow_has_a_stored_history_and_a_long_search_has_two():
    names = {path.name.split(".")[0] for path in STORED}
    assert names == {workflow.__name__ for workflow in WORKFLOWS} | {"KernelSearch-first"}
    assert sum(path.stat().st_size for path in STORED) < MOST_BYTES
