"""A search that goes on from a backup, on another machine, after its worker and its Temporal server were lost."""

import asyncio
import dataclasses

import pytest

from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.spending import Caps, ModelBudget
from compiler_agent.backup import make_backup
from compiler_agent.restore import restore_backup
from compiler_agent.settings import read_settings
from tests.model_server.server import ModelServer
from tests.workflows.paid_search import (
    RUN,
    begin_search,
    open_namespace,
    place_on,
    serving,
    start_worker,
    task_named,
    write_reply,
)
from workflows import queues
from workflows.tune_task import TuneTask

MODELS = ModelBudget(endpoints=("test",), run=Caps(usd=5.0), op=Caps(usd=4.0))
PATIENCE_S = 120.0


@pytest.mark.slow
def test_a_restored_run_goes_on_and_keeps_what_was_done(server_address, ledger_url, tmp_path):
    server = ModelServer()
    server.default = write_reply
    lost = place_on(server_address, server, tmp_path / "lost", die="evaluate", ledger_url=ledger_url)
    search = begin_search(lost, task_named("double"), MODELS)

    async def search_until_death() -> None:
        client = await open_namespace(server_address, lost.namespace)
        await client.start_workflow(TuneTask.run, search, id=RUN, task_queue=queues.CONTROL)
        worker = await start_worker(lost)
        assert await asyncio.wait_for(worker.wait(), PATIENCE_S) == -9

    asyncio.run(search_until_death())
    before = Ledger(ledger_url)
    done, paid = before.attempts(RUN, search.task_id), ModelCalls(before).calls("")
    assert done
    home = tmp_path / "restored"
    make_backup(
        read_settings({"COMPILER_AGENT_HOME": lost.home, "COMPILER_AGENT_LEDGER": ledger_url}),
        tmp_path / "saved",
        with_keys=False,
    )
    restore_backup(tmp_path / "saved", read_settings({"COMPILER_AGENT_HOME": str(home)}))
    found = dataclasses.replace(
        place_on(server_address, server, home), device_id=lost.device_id
    )  # its namespace knows nothing of the search

    async def go_on() -> None:
        client = await open_namespace(server_address, found.namespace)
        async with serving(client, found):
            await asyncio.wait_for(
                client.execute_workflow(TuneTask.run, search, id=RUN, task_queue=queues.CONTROL), PATIENCE_S
            )

    asyncio.run(go_on())
    server.close()
    after = Ledger(found.ledger_url)
    assert after.attempts(RUN, search.task_id)[: len(done)] == done
    assert ModelCalls(after).calls("")[: len(paid)] == paid
    report = after.report(RUN)
    assert report is not None
    assert report.decision == "won"
    assert len(before.attempts(RUN, search.task_id)) == len(done)
