"""Kernels that won in a run are promoted into a build of their own, over the null device."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.null_device.request import make_null_request, null_device
from benchmarks.null_device.stack import start_null_run
from candidates.ledger.ledger import Ledger
from candidates.run import PromoteRequest
from candidates.serving_build.build import read_build
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker import connect
from tests.workflows.null_runs import RUN_ID, null_worker, settings_of
from workflows import queues
from workflows.payloads import ShipInput
from workflows.promote_kernels import PromoteKernels

REQUEST = make_null_request(1, hot_ops=2, candidates_per_op=12)  # whose build does not go live: nothing is kept of it


@pytest.mark.slow
def test_a_kernel_that_won_is_promoted_into_a_build_of_its_own(tmp_path):
    settings = settings_of(tmp_path)
    ledger = Ledger(settings.ledger_url)

    async def run_and_promote(address):
        client = await connect(address, "default")
        await (await start_null_run(client, ledger, REQUEST, RUN_ID)).result()
        won = [decision for decision in ledger.promotions(RUN_ID) if decision.is_promoted]
        promotion = PromoteRequest(**REQUEST.model_dump(), base_run=RUN_ID, task_ids=(won[0].task_id,))
        ledger.open_run(promotion, "promote")
        ship = ShipInput(run_id="promote", device_id=null_device().id)
        await client.execute_workflow(PromoteKernels.run, ship, id="promote", task_queue=queues.CONTROL)
        return won

    with temporal_server(settings) as address, null_worker(settings, address, ("--generation=4",)):
        won = asyncio.run(run_and_promote(address))
    (promoted,) = ledger.promotions("promote")
    assert (promoted.task_id, promoted.candidate_id) == (won[0].task_id, won[0].candidate_id)
    build, of_the_run = ledger.build_of("promote"), ledger.build_of(RUN_ID)
    assert len(won) == 2
    assert build.id != of_the_run.id
    (kernel,) = read_build(Path(build.path)).manifest.kernels
    assert kernel.id == won[0].candidate_id
    assert ledger.report("promote").build.id == build.id
    ledger.engine.dispose()
