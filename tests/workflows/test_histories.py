"""Runs that earlier workers began go on with these: every stored history replays.

What is stored is recorded by `python -m tests.workflows.record_histories`.
"""

import asyncio
import gzip
import json

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from compiler_agent.worker import WORKFLOWS
from tests.workflows.record_histories import HISTORIES

STORED = sorted(HISTORIES.glob("*.json.gz"))
MOST_BYTES = 300_000


def history_of(path):
    stored = WorkflowHistory.from_json(path.name, gzip.decompress(path.read_bytes()).decode())
    # A night's child is named by it.
    return WorkflowHistory(stored.events[0].workflow_execution_started_event_attributes.workflow_id, stored.events)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name.split(".")[0])
def test_stored_history_replays(path):
    history = history_of(path)
    replayer = Replayer(workflows=WORKFLOWS, data_converter=pydantic_data_converter)
    asyncio.run(replayer.replay_workflow(history))


def test_a_long_search_goes_on_with_what_it_has_done():
    first, second = (history_of(HISTORIES / f"KernelSearch{part}.json.gz") for part in ("-first", ""))
    begun = json.loads(second.events[0].workflow_execution_started_event_attributes.input.payloads[0].data)
    names = [event.activity_task_scheduled_event_attributes.activity_type.name for event in first.events]
    rounds = names.count("propose")
    assert begun["so_far"]["round_number"] == rounds > 0
    assert begun["so_far"]["tried"] == 4 * rounds
    assert begun["so_far"]["spent_s"] > 0


def test_every_workflow_has_a_stored_history_and_a_long_search_has_two():
    names = {path.name.split(".")[0] for path in STORED}
    assert names == {workflow.__name__ for workflow in WORKFLOWS} | {"KernelSearch-first"}
    assert sum(path.stat().st_size for path in STORED) < MOST_BYTES
