"""A run that failed for good ends like an undisturbed one, when what was at fault is mended and it is asked again."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.activity.v1 import ActivityOptions
from temporalio.api.common.v1 import RetryPolicy, WorkflowExecution
from temporalio.api.workflowservice.v1 import UpdateActivityOptionsRequest
from temporalio.client import WorkflowExecutionStatus

from candidates.ledger.ledger import Ledger
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker import connect
from tests.workflows.chaos import picture_of
from tests.workflows.null_runs import RUN_ID, Run, null_worker, settings_of, undisturbed

RUN = Run(seed=5, hot_ops=3, candidates_per_op=12)
OPTIONS = ("--generation=1", "--measuring-s=0.02", "--source-bytes=1000")
"""Of one candidate: how they fall into generations is then the same, however often a search is begun."""
PATIENCE_S = 90.0


@contextlib.contextmanager
def no_store(home, url, postgresql):
    """Where blobs were is something else: in no list of causes, so four tries."""
    blobs, aside = home / "blobs", home / "blobs-aside"
    blobs.rename(aside)
    blobs.touch()
    yield
    blobs.unlink()
    aside.rename(blobs)


@contextlib.contextmanager
def no_database(home, url, postgresql):
    """It takes no connection, and has half an hour; whoever runs the server may shorten that."""
    name = url.partition("@/")[2].partition("?")[0]
    postgresql.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgresql.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    yield
    postgresql.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


async def shorten_patience(client, workflow_id, activities):
    for each in activities:
        await client.workflow_service.update_activity_options(
            UpdateActivityOptionsRequest(
                namespace=client.namespace,
                execution=WorkflowExecution(workflow_id=workflow_id),
                id=each.activity_id,
                activity_options=ActivityOptions(retry_policy=RetryPolicy(maximum_attempts=2)),
                update_mask=FieldMask(paths=["retry_policy.maximum_attempts"]),
            )
        )


async def fail(address):
    """Until the run has given up."""
    client = await connect(address, "default")
    run, deadline = client.get_workflow_handle(RUN_ID), time.monotonic() + PATIENCE_S
    while (await run.describe()).status is WorkflowExecutionStatus.RUNNING:
        assert time.monotonic() < deadline
        async for each in client.list_workflows("ExecutionStatus = 'Running'"):
            described = await client.get_workflow_handle(each.id).describe()
            await shorten_patience(client, each.id, described.raw_description.pending_activities)
        await asyncio.sleep(0.5)
    assert (await run.describe()).status is WorkflowExecutionStatus.FAILED


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return undisturbed(RUN, tmp_path_factory.mktemp("undisturbed"), OPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [no_store, no_database])
def test_a_run_that_gave_up_ends_like_an_undisturbed_one(tmp_path: Path, postgresql, postgresql_url, expected, fault):
    settings = settings_of(tmp_path, postgresql_url)
    ledger = Ledger(settings.ledger_url)
    with temporal_server(settings) as address, null_worker(settings, address, OPTIONS):
        RUN.begin(address, ledger)
        RUN.await_work(address, ledger, RUN.attempts / 2)  # one op is done with, one is under way
        with fault(tmp_path, postgresql_url, postgresql):
            asyncio.run(fail(address))
        tried = RUN.count_attempts_when_back(ledger)
        assert RUN.candidates_per_op < tried < RUN.attempts
        RUN.begin(address, ledger)
        RUN.await_work(address, ledger, None)
    found = picture_of(ledger)
    for table, facts in expected.items():
        assert found[table] == facts, table
    ledger.engine.dispose()
