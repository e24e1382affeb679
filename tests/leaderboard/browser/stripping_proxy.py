"""proxy_below: a reverse proxy that mounts a server below a path and takes that path off what it hands on."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_OF_ONE_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length")


class Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, prefix: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.prefix = prefix
        self.upstream = ""
        """Address of the server; known when it has started."""
        self.outside: list[str] = []
        """Paths that were asked for and are not below the prefix."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{self.prefix}"


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self._hand_on(None)

    def do_POST(self) -> None:
        self._hand_on(self.rfile.read(int(self.headers.get("content-length", 0))))

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _hand_on(self, body: bytes | None) -> None:
        prefix = self.server.prefix
        if not self.path.startswith(f"{prefix}/"):
            self.server.outside.append(self.path)
            self.send_error(404)
            return
        upstream = http.client.HTTPConnection(urlsplit(self.server.upstream).netloc)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        upstream.request(self.command, self.path.removeprefix(prefix), body, headers)
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        try:
            while part := answer.read1(65536):  # as it comes: events must not wait for a buffer to fill
                self.wfile.write(part)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            upstream.close()


@contextmanager
def proxy_below(prefix: str) -> Iterator[Proxy]:
    with Proxy(prefix) as proxy:
        serving = threading.Thread(target=proxy.serve_forever, daemon=True)
        serving.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
