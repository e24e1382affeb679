"""`compiler-agent models rank` with two scripted endpoints: interrupted, gone on with, shown again."""

import itertools
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from candidates.exam import ExamReport
from candidates.ledger.model_calls import ModelCalls
from candidates.verdict import Accepted
from tests.compiler_agent.plain_kernels import plain_kernel
from tests.compiler_agent.scripted_endpoint import (
    PATIENCE_S,
    PRICES,
    billed_tokens,
    command,
    configure,
    environment,
    open_ledger,
    run,
)
from tests.model_server.behaviour import Say
from tests.model_server.server import ModelServer

OPS = ("max_over_tokens", "embedding")
RANK = (
    *("models", "rank", "--model-name", "able", "--model-name", "talker", "--screen-only"),
    *("--attempts", "2", "--seconds", "200", "--budget-usd", "3"),
    *(f"--task={op}" for op in OPS),
)


def talk(body: dict[str, Any]) -> Say:
    return Say(text="Kernels are a fascinating topic. Let me explain them.")


class Able:
    """Writes a right kernel for whichever task it is asked for, a new one each time."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._number = itertools.count()

    def __call__(self, body: dict[str, Any]) -> Say:
        asked = json.dumps(body)
        (task,) = (task for task in open_ledger(self._home).tasks() if f"| {task.op} at " in asked)
        source = f"{plain_kernel(task).source}\nstatic const int number_{next(self._number)} = 0;\n"
        return Say(text=f"Change: plain loops\n\n```cpp\n{source}```\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home: Path = tmp_path_factory.mktemp("home")
    return home


@pytest.fixture(scope="module")
def servers(home: Path):
    able, talker = ModelServer(), ModelServer()
    able.default, talker.default = Able(home), talk
    configure(home, able=able, talker=talker)
    yield able, talker
    able.close()
    talker.close()


@pytest.fixture(scope="module")
def interrupted(home: Path, servers) -> int:
    """How many attempts were recorded when Ctrl-C came."""
    with subprocess.Popen(
        command(*RANK, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home)
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not (attempts := _attempts(home)):
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr.decode()
    assert stdout == b""
    return attempts


def _attempts(home: Path) -> int:
    ledger = open_ledger(home)
    return sum(len(ledger.attempts(entry.run_id, task.id)) for entry in ledger.runs() for task in ledger.tasks())


@pytest.mark.slow
@pytest.mark.long
def test_a_ranking_goes_on_and_says_who_is_right_for_how_much(home, servers, interrupted):
    able_server, talker_server = servers
    done = run(home, *RANK, "--json")
    assert done.returncode == 1, done.stderr  # the talker has no right kernel
    able, talker = map(ExamReport.model_validate, json.loads(done.stdout)["endpoints"])

    assert [task.op for task in able.tasks] == sorted(OPS)
    assert (able.tasks_correct.count, able.tasks_correct.of) == (2, 2)
    assert able.tasks_correct.interval.low == pytest.approx(0.342, abs=1e-3)
    assert able.speedup is not None
    assert able.speedup.tasks == 2
    assert able.stages == {"screen": 2}
    assert (able.wins, able.usd_per_win) == (None, None)
    for fast in able.fast_p:
        faster = [task for task in able.tasks if task.speedup_over_best and task.speedup_over_best > fast.p]
        assert fast.share.count == len(faster)
    assert able.stop_reasons.keys() <= {"budget", "no_progress", "floor_reached"}

    assert (talker.tasks_correct.count, talker.speedup) == (0, None)
    assert talker.stop_reasons == {"no_kernel": 2}
    assert (talker.samples_accepted.count, talker.samples_accepted.of) == (0, 2)

    ledger = open_ledger(home)
    for report, server in ((able, able_server), (talker, talker_server)):
        assert len(ModelCalls(ledger).calls(report.run_id)) == len(server.billed)
        assert report.spend_usd == pytest.approx(server.usd(**PRICES), abs=1e-8)
        assert report.spend_tokens == billed_tokens(server)
        assert sum(task.spend_tokens for task in report.tasks) == report.spend_tokens
    attempts = [attempt for task in able.tasks for attempt in ledger.attempts(able.run_id, task.task)]
    assert able.samples_accepted.count == sum(isinstance(each.verdict, Accepted) for each in attempts)
    assert able.samples_accepted.of >= len(attempts)
    assert {entry.run_id for entry in ledger.runs()} == {able.run_id, talker.run_id}

    billed = [len(server.billed) for server in servers]
    shown = run(home, *RANK)
    assert shown.returncode == 1, shown.stderr
    assert [len(server.billed) for server in servers] == billed
    assert "2/2 (34%-100%)" in shown.stdout
    assert "no_kernel 2" in shown.stdout


def test_a_task_that_is_not_in_the_exam_is_refused(tmp_path):
    done = run(tmp_path, "models", "rank", "--task", "attention", "--budget-usd", "1")
    assert done.returncode == 2
    assert "no task attention in the exam: there are embedding" in done.stderr


def test_a_ranking_without_an_endpoint_is_refused_before_anything_runs(tmp_path):
    done = run(tmp_path, "models", "rank", "--budget-usd", "1")
    assert done.returncode == 2
    assert "set OPENAI_API_KEY and OPENAI_MODEL" in done.stderr
