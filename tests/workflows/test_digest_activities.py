"""Digests over HTTP: sent once, again where they surely did not arrive, and never where nobody knows."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from temporalio.testing import ActivityEnvironment

from candidates.ledger.deliveries import Deliveries
from candidates.ledger.ledger import Ledger
from candidates.ledger.nights import Nights
from candidates.nightly import Night, NightlySchedule, NightSkipped
from candidates.run import RunRequest
from compiler_agent.digest_settings import post_digest, read_digest_receiver
from compiler_agent.outcome import UserFault
from workflows.activities.digest import DigestActivities, DigestReceiver, NotReached


class Chat:
    """An incoming webhook; answers with each of `answers` in turn, then with 200. None: it hangs up."""

    def __init__(self):
        self.answers, self.texts = [], []
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                chat.texts.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["text"])
                status = chat.answers.pop(0) if chat.answers else 200
                if status is not None:
                    self.send_response(status)
                    self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/key"


@pytest.fixture
def chat():
    chat = Chat()
    thread = threading.Thread(target=chat.server.serve_forever)
    thread.start()
    yield chat
    chat.server.shutdown()
    thread.join()
    chat.server.server_close()


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    schedule = NightlySchedule(
        name="chat",
        cron="0 2 * * *",
        time_zone="UTC",
        source="file:///logs",
        device_id="cpu-1",
        template=RunRequest(traces=(), trace_digest="", model="tiny"),
    )
    outcome = NightSkipped(reason="no new requests")
    Nights(ledger).add(Night(id="n-1", schedule=schedule, began_at=datetime(2026, 1, 1, tzinfo=UTC), outcome=outcome))
    return ledger


@pytest.fixture
def send(ledger, tmp_path, chat):
    receiver = DigestReceiver(url=chat.url, post=post_digest)
    activities = DigestActivities(ledger, tmp_path, receiver=receiver)
    return lambda: ActivityEnvironment().run(activities.send_digest, "n-1")


def test_a_digest_is_sent_once_however_often_it_is_asked_for(send, chat):
    send()
    send()
    (text,) = chat.texts
    assert "no new requests" in text


def test_what_was_refused_is_sent_again(send, chat):
    chat.answers = [503, 404]
    for _ in range(2):
        with pytest.raises(NotReached):
            send()
    send()
    send()
    assert len(chat.texts) == 3


def test_what_may_have_arrived_is_not_sent_again(send, chat):
    chat.answers = [None]
    send()
    send()
    assert len(chat.texts) == 1


def test_what_a_killed_process_was_sending_is_not_sent_again(send, chat, ledger):
    receiver = DigestReceiver(url=chat.url, post=post_digest)
    assert Deliveries(ledger, receiver.digest).claim("digest-n-1", 1, datetime.now(UTC))
    send()
    assert chat.texts == []


def test_nobody_listening_is_tried_again_later(send, chat):
    chat.server.shutdown()
    chat.server.server_close()
    with pytest.raises(NotReached, match="ConnectionRefusedError"):
        send()


def test_the_address_is_read_from_the_environment_or_a_file_and_never_told(tmp_path):
    assert read_digest_receiver({}) is None
    secret = "https://chat.example.org/hooks/s3cr3t"
    (tmp_path / "address").write_text(secret + "\n")
    by_file = read_digest_receiver({"COMPILER_AGENT_DIGEST_URL_FILE": str(tmp_path / "address")})
    by_name = read_digest_receiver({"COMPILER_AGENT_DIGEST_URL": secret})
    assert by_file.url == by_name.url == secret
    assert "s3cr3t" not in repr(by_name)
    for environment in (
        {"COMPILER_AGENT_DIGEST_URL": "ftp://x/s3cr3t"},
        {"COMPILER_AGENT_DIGEST_URL": "http://chat.example.org/s3cr3t"},
        {"COMPILER_AGENT_DIGEST_URL_FILE": str(tmp_path / "missing")},
    ):
        with pytest.raises(UserFault, match="COMPILER_AGENT_DIGEST_URL") as fault:
            read_digest_receiver(environment)
        assert "s3cr3t" not in str(fault.value)
