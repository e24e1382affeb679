"""HEAD, which pages do not know of."""

import http.client

import pytest

from tests.leaderboard.boards import make_board, visit
from tests.leaderboard.known_kernels import KnownKernels
from tests.leaderboard.served_board import serve


@pytest.fixture
def board(tmp_path):
    return make_board(tmp_path)


@pytest.mark.parametrize("path", ["/", "/runs", "/feed.atom", "/api/v1/wins", "/static/style.css", "/missing"])
def test_has_the_status_and_headers_of_get_and_no_body(board, path):
    client = visit(board)
    got, head = client.get(path), client.head(path)
    assert head.status_code == got.status_code
    assert head.content == b""
    assert head.headers["content-length"] == got.headers["content-length"]
    assert head.headers["content-type"] == got.headers["content-type"]


def test_an_answer_without_an_end_ends_at_once(board):
    KnownKernels(board).open_run("run-1")
    with serve(board) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("HEAD", "/runs/run-1/events")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        connection.request("GET", "/runs")
        assert connection.getresponse().status == 200
        connection.close()
    assert board.streams.open == 0
