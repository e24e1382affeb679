"""A real server around a board, for what a test client cannot show: answers that come piece by piece."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from leaderboard.app import Site, make_app
from leaderboard.board import Board


@contextmanager
def serve(board: Board) -> Iterator[int]:
    """The port, on 127.0.0.1."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        config = uvicorn.Config(
            make_app(board, Site(hosts=("127.0.0.1",))), log_level="warning", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield port
        finally:
            server.should_exit = True
            thread.join()
