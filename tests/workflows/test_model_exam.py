"""An exam on a real Temporal server: every task is searched in its turn, and its report ends the run."""

import asyncio

import pytest

from candidates.exam import ExamReport, ExamRequest, ExamTask
from candidates.ledger.ledger import Ledger
from candidates.measurement import Stage
from tests.compiler_agent.models.spender import PRICE
from tests.model_server.server import ModelServer
from tests.workflows.paid_search import (
    RUN,
    begin_search,
    open_namespace,
    place_on,
    serving,
    task_named,
    write_reply,
)
from tests.workflows.test_paid_search import MODELS
from workflows import queues
from workflows.model_exam import ModelExam
from workflows.payloads import ExamInput

TASKS = (task_named("double"), task_named("twice"), task_named("again"))
PRICES = {name: getattr(PRICE, name) for name in ("input", "cache_read", "cache_write", "output")}


@pytest.mark.parametrize(
    ("ledger_url", "last_stage"),
    [("postgresql", Stage.SCREEN), ("sqlite", Stage.CONFIRM)],
    indirect=["ledger_url"],
)
def test_each_task_is_searched_and_the_report_ends_the_run(server_address, tmp_path, ledger_url, last_stage):
    server = ModelServer()
    server.default = write_reply
    place = place_on(server_address, server, tmp_path, ledger_url=ledger_url)
    ledger = Ledger(place.ledger_url)
    request = ExamRequest(
        endpoint="test",
        model="m",
        is_priced=True,
        tasks=tuple(ExamTask(task_id=task.id, op=task.op) for task in TASKS),
        models=MODELS,
        search_s=1e6,
        attempts=9,
        last_stage=last_stage,
    )
    ledger.open_run(request, RUN)
    changes = {"recalls_past": False, "last_stage": last_stage}
    searches = tuple(begin_search(place, task, MODELS).model_copy(update=changes) for task in TASKS)

    async def sit():
        client = await open_namespace(server_address, place.namespace)
        async with serving(client, place):
            exam = ExamInput(run_id=RUN, searches=searches)
            await client.execute_workflow(ModelExam.run, exam, id=RUN, task_queue=queues.CONTROL)

    asyncio.run(sit())
    server.close()
    report = ledger.latest_report(request)
    assert isinstance(report, ExamReport)
    assert [task.op for task in report.tasks] == ["double", "twice", "again"]
    assert sum(report.stop_reasons.values()) == 3
    attempts = [attempt for task in TASKS for attempt in ledger.attempts(RUN, task.id)]
    assert report.samples_accepted.of == len(attempts) > 9
    assert len(server.billed) > len(attempts), "diagnoses are paid for too, and are no samples"
    assert report.samples_accepted.count == sum(task.accepted for task in report.tasks) > 0
    assert report.spend_usd == pytest.approx(server.usd(**PRICES), abs=1e-8)
    stages = {task.stage for task in report.tasks if task.stage is not None}
    if last_stage is Stage.SCREEN:
        assert (stages, report.wins) == ({Stage.SCREEN}, None)
    else:
        assert stages <= {Stage.RACE, Stage.CONFIRM}
        assert report.wins == sum(task.stage is Stage.CONFIRM for task in report.tasks) > 0
