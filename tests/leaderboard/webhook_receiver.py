"""A receiver of webhooks on this machine, which answers as it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiB3ZWJob29rcw=="


@dataclass
class Receiver:
    url: str
    answers: list[int] = field(default_factory=list)
    """For the next requests in turn, then 204."""
    ids: list[str] = field(default_factory=list)
    """Of what was signed as it should be, accepted or not."""
    documents: list[dict[str, Any]] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.documents.append(Webhook(SECRET).verify(body, dict(self.headers)))
            receiver.ids.append(self.headers["webhook-id"])
            status = receiver.answers.pop(0) if receiver.answers else 204
            if 200 <= status < 300:
                receiver.accepted.append(self.headers["webhook-id"])
            self.send_response(status)
            if status == 302:
                self.send_header("Location", receiver.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(url=f"http://127.0.0.1:{server.server_port}/hook?key=1")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
