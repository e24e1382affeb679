"""What readers are told when a request cannot be answered."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import pytest
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from leaderboard.access.actions import ActionRefused
from leaderboard.app import Site, make_app
from tests.leaderboard.boards import HOST, make_board, visit
from tests.leaderboard.served_board import serve


@pytest.fixture
def board(tmp_path):
    return make_board(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "/?after=1.0~99999999999999999999",
        "/?after=1.0~-1",
        "/api/v1/wins?after=1.0~9223372036854775808",
        "/api/v1/wins.csv?after=1.0~9223372036854775808",
        "/api/v1/runs?before=9223372036854775808",
        "/api/v1/runs?before=-1",
        "/runs?before=9223372036854775808",
    ],
)
def test_a_number_that_no_row_can_have_is_refused(board, path):
    assert visit(board).get(path).status_code in (400, 422)


@pytest.mark.parametrize("body", ['{"live": NaN}', '{"x": Infinity}', '{"x": "\\ud800"}', '{"\\ud800": 1}', "[]", "{"])
def test_what_was_sent_is_not_sent_back(board, body):
    headers = {"authorization": "Bearer cat_x", "content-type": "application/json"}
    answer = visit(board).post("/api/v1/builds/rollback", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert isinstance(answer.json()["detail"], str)


def test_a_reader_of_pages_is_told_in_a_page(board):
    answer = visit(board).get("/candidates/af/transcript/-1/request")
    assert answer.status_code == 422
    assert answer.headers["content-type"].startswith("text/html")
    assert "greater than or equal to 0" in answer.text


@pytest.mark.parametrize("path", ["/", "/runs", "/feed.atom", "/api/v1/wins", "/api/v1/wins.csv"])
def test_a_ledger_that_cannot_be_read_is_said_and_not_how(board, tmp_path, caplog, path):
    board.ledger.engine.dispose()
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("DROP TABLE standings")
        connection.execute("DROP TABLE runs")
    answer = visit(board).get(path)
    assert answer.status_code == 503
    assert "the log of the leaderboard says why" in answer.text
    assert "no such table" not in answer.text
    assert "no such table" in caplog.text


def test_an_action_that_the_ledger_did_not_take_is_not_said_to_be_undone(tmp_path):
    class Actions:
        def rollback(self, by, live=None):
            raise OperationalError("INSERT", {}, Exception("database is locked"))

    board = make_board(tmp_path, actions=Actions())
    headers = {"authorization": f"Bearer {board.tokens.create('ann')}"}
    answer = visit(board).post("/api/v1/builds/rollback", headers=headers)
    assert answer.status_code == 503
    assert "may be done all the same" in answer.json()["detail"]


def test_readers_do_not_wait_for_who_changes_something(tmp_path):
    begun, may_end = threading.Event(), threading.Event()

    class Actions:
        def rollback(self, by, live=None):
            begun.set()
            may_end.wait(30)
            raise ActionRefused("enough")

    board = make_board(tmp_path, actions=Actions())
    headers = {"authorization": f"Bearer {board.tokens.create('ann')}"}

    def ask(method, path):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, path, headers=headers)
        return connection.getresponse().status

    with serve(board) as port, ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(ask, "POST", "/api/v1/builds/rollback") for _ in range(8)]
        assert begun.wait(30)
        try:
            assert ask("GET", "/runs") == 200
            assert ask("GET", "/static/style.css") == 200
            assert not any(each.done() for each in waiting)
        finally:
            may_end.set()
        assert {each.result() for each in waiting} == {409}


def test_a_fault_of_ours_is_said_and_not_which(board, tmp_path):
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds" / "approvals.jsonl").write_text("{}\n")  # of no release of ours
    client = TestClient(make_app(board, Site(hosts=(HOST,))), base_url=f"http://{HOST}", raise_server_exceptions=False)
    answer = client.get("/builds")
    assert answer.status_code == 500
    assert "the fault is ours" in answer.text
    assert str(tmp_path) not in answer.text
    assert answer.headers["content-security-policy"]


def test_builds_whose_link_is_none_are_said_to_be_unreadable(board, tmp_path):
    (tmp_path / "builds" / "current").mkdir(parents=True)
    answer = visit(board).get("/builds")
    assert answer.status_code == 503
    assert "the builds cannot be read" in answer.text
    assert str(tmp_path) not in answer.text
    assert visit(board).get("/api/v1/wins").json() == {"standings": [], "next": None}


@pytest.mark.parametrize("root_path", ["", "/kernels"])
def test_no_redirect_names_a_scheme_or_a_host(board, root_path):
    client = visit(board, root_path)
    client.follow_redirects = False
    for path in ("/runs/", "//evil.example/", "//evil.example/runs/", "/builds/x/", "/candidates/x/"):
        assert client.get(f"http://{HOST}{root_path}{path}").status_code == 404
    assert client.get(root_path or "/").status_code == 200
