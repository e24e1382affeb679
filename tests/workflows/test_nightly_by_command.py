"""Two nights by the commands alone, with the real workers on a tiny model: a run on the traffic, then nothing new."""

import asyncio
import json
import os
import shutil
import string
import subprocess
import sys
import time
import uuid

import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from candidates.ledger.ledger import Ledger
from compiler_agent.child_processes import start_child, stop_children
from tests.workflows.paid_search import open_namespace
from traces.sample import SAMPLE_TRACE

PROGRAM = (sys.executable, "-m", "compiler_agent")
PATIENCE_S = 900


@pytest.fixture
def environment(tmp_path, server_address):
    namespace = f"nights-{uuid.uuid4().hex}"
    asyncio.run(open_namespace(server_address, namespace))
    return os.environ | {
        "COMPILER_AGENT_HOME": str(tmp_path / "home"),
        "COMPILER_AGENT_TEMPORAL": server_address,
        "COMPILER_AGENT_ALLOW_ROOT": "1",
        "COMPILER_AGENT_TEMPORAL_NAMESPACE": namespace,
    }


@pytest.fixture
def workers(tmp_path, environment):
    queues = (("control", "author", "build", "ship"), ("device",))
    started = [
        start_child(
            [*PROGRAM, "worker", *(f"--queue={queue}" for queue in names)],
            tmp_path / "logs" / f"{names[0]}.log",
            environment | {"OMP_WAIT_POLICY": "passive"},
        )
        for names in queues
    ]
    yield started
    for worker in started:
        stop_children([worker], patience_s=15.0)


def command(environment, *arguments):
    asked = [*PROGRAM, "schedule", *map(str, arguments)]
    finished = subprocess.run(asked, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def spend_night(environment, number):
    command(environment, "trigger", "chat")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = json.loads(command(environment, "show", "chat", "--json"))
        # The server says that it goes on only a moment after it began.
        if (
            len(shown["nights"]) == number
            and shown["going_on"] is None
            and shown["nights"][0]["outcome"] != "not_ended"
        ):
            return shown["nights"][0]
        assert time.monotonic() < deadline
        time.sleep(0.5)


def letter_tokenizer():
    """A token for each letter, within the tiny model's vocabulary."""
    vocabulary = {"?": 0} | {letter: number for number, letter in enumerate(string.ascii_letters + " .,", start=3)}
    letters = Tokenizer(WordLevel(vocabulary, unk_token="?"))
    letters.pre_tokenizer = Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=letters, unk_token="?")


@pytest.mark.slow
@pytest.mark.long
def test_a_night_ends_in_a_report_and_the_next_has_nothing_new(tmp_path, environment, workers, tiny_llama):
    model = shutil.copytree(tiny_llama, tmp_path / "model")
    letter_tokenizer().save_pretrained(model)  # the gate of a build asks the model about texts
    serving = tmp_path / "serving"
    serving.mkdir()
    shutil.copy(SAMPLE_TRACE, serving / "requests.jsonl")
    command(
        environment,
        *("create", "chat", "--cron", "0 2 * * *", "--source", serving, "--model", model),
        *("--limit", 40, "--hot-ops", 1, "--search-seconds", 5, "--attempts", 2),
        *("--end-to-end-seconds", 5, "--compile-seconds", 0),
    )
    night = spend_night(environment, 1)
    assert night["outcome"] in ("shipped", "nothing_shipped")
    assert night["requests"] == night["traffic"]["files"][0]["rows"] > 500
    report = Ledger(f"sqlite:///{tmp_path / 'home' / 'ledger.sqlite'}").report(night["night_id"])
    assert report.replay.requests.kept == 40
    assert report.hot_ops
    digest = (tmp_path / "home" / "digests" / f"{night['night_id']}.md").read_text()
    assert report.hot_ops[0].op in digest
    (serving / "requests.jsonl").rename(serving / "requests.jsonl.1")
    night = spend_night(environment, 2)
    assert (night["outcome"], night["reason"]) == ("skipped", "no new requests")
