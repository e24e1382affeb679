import socket
import threading
from collections.abc import Iterator

import pytest

from leaderboard.webhooks.post import PostFailed, post_over_http


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _answer(server: socket.socket, pieces: Iterator[bytes], stop: threading.Event) -> threading.Thread:
    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            try:
                for piece in pieces:
                    connection.sendall(piece)
                    if stop.wait(0.05):
                        return
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_a_target_that_answers_a_byte_at_a_time_is_left(listener: socket.socket) -> None:
    stop = threading.Event()
    thread = _answer(listener, iter([b"HTTP/1.1 2", *[b"0"] * 10_000]), stop)
    with pytest.raises(PostFailed, match="no answer"):
        post_over_http(f"http://127.0.0.1:{listener.getsockname()[1]}/", {}, b"{}", timeout_s=0.5)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_an_answer_without_end_is_not_read(listener: socket.socket) -> None:
    stop = threading.Event()
    thread = _answer(listener, iter([b"HTTP/1.1 202 Accepted\r\n\r\n", *[b"x" * 1000] * 10_000]), stop)
    assert post_over_http(f"http://127.0.0.1:{listener.getsockname()[1]}/", {}, b"{}") == 202
    stop.set()
    thread.join(10)


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nx"])
def test_an_answer_that_breaks_off_is_none(listener: socket.socket, answer: bytes) -> None:
    thread = _answer(listener, iter([answer]), threading.Event())
    with pytest.raises(PostFailed, match="no answer"):
        post_over_http(f"http://127.0.0.1:{listener.getsockname()[1]}/", {}, b"{}")
    thread.join(10)


def test_a_host_without_an_address_is_no_answer() -> None:
    with pytest.raises(PostFailed, match="gaierror"):
        post_over_http("https://host.invalid/", {}, b"{}")
