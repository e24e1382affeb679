"""ModelServer: answers over HTTP as it is told, and counts what it would bill."""

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.model_server.behaviour import Behaviour, Billed, Fail, HangUp, Say
from tests.model_server.wire import AnthropicWire, ChatWire, ResponsesWire, Wire

KEY = "sk-test-0123456789abcdefghij"
MODEL = "test-model-1"


class ModelServer:
    """Serves all three APIs until it is closed. `key` None: any credential will do, as with local servers."""

    def __init__(self, *, key: str | None = KEY, is_vendors: bool = True) -> None:
        wires: tuple[Wire, ...] = (AnthropicWire(), ChatWire(is_vendors=is_vendors), ResponsesWire())
        self.wires = {wire.path: wire for wire in wires}
        self.key = key
        self.script: deque[Behaviour] = deque()
        """One a call; when it is used up, `default`."""
        self.default: Behaviour | Callable[[dict[str, Any]], Behaviour] = Say()
        self.requests: list[dict[str, Any]] = []
        self.billed: list[Billed] = []
        self.arrivals = threading.Semaphore(0)
        self._cached: set[str] = set()
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.model = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def will(self, *behaviours: Behaviour) -> None:
        self.script.extend(behaviours)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def usd(self, *, input: float, cache_read: float, cache_write: float, output: float) -> float:
        """What it billed at these prices, dollars per million tokens."""
        with self._lock:
            tokens = (
                (bill.input_tokens * input, bill.cache_read_tokens * cache_read,
                 bill.cache_write_tokens * cache_write, bill.output_tokens * output)
                for bill in self.billed
            )  # fmt: skip
            return math.fsum(sum(one) for one in tokens) / 1e6

    def take(self, body: dict[str, Any]) -> Behaviour:
        with self._lock:
            self.requests.append(body)
            behaviour = self.script.popleft() if self.script else self.default
        self.arrivals.release()
        return behaviour(body) if callable(behaviour) else behaviour

    def bill(self, wire: Wire, say: Say, body: dict[str, Any]) -> Billed:
        """A token for every four characters; the prefix from the cache where it was cached before."""
        prefix, is_cached = wire.prefix(body)
        prefix_tokens = _tokens(prefix) if is_cached else 0
        whole = _tokens(json.dumps(body)) if say.input_tokens is None else say.input_tokens
        rest = max(1, whole - prefix_tokens)
        most = wire.most_output(body)
        wanted = _tokens(say.text + say.thinking) if say.output_tokens is None else say.output_tokens
        with self._lock:
            is_hit = prefix in self._cached
            if is_cached:
                self._cached.add(prefix)
            bill = Billed(
                input_tokens=rest,
                cache_read_tokens=prefix_tokens if is_hit else 0,
                cache_write_tokens=0 if is_hit else prefix_tokens,
                output_tokens=min(most, wanted),
            )
            self.billed.append(bill)
        return bill


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    model: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what several tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        model = self.server.model
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        wire = model.wires.get(self.path)
        if wire is None:
            self._refuse(404, {"error": {"message": f"no such path: {self.path}"}})
            return
        behaviour = model.take(body)
        credential = wire.credential(self.headers)
        if model.key is not None and credential != model.key:
            kind = "authentication_error" if isinstance(wire, AnthropicWire) else "invalid_api_key"
            behaviour = Fail(status=401, kind=kind, message=f"Incorrect API key provided: {credential}")
        elif body["model"] != MODEL:
            behaviour = Fail(status=404, kind="model_not_found", message=f"no model {body['model']}")
        elif complaint := wire.complaint(body):
            behaviour = Fail(status=400, message=complaint)
        match behaviour:
            case HangUp():
                self.close_connection = True
            case Fail():
                self._refuse(behaviour.status, wire.error(behaviour), behaviour.retry_after)
            case Say():
                time.sleep(behaviour.first_after_s)
                self._stream(behaviour, wire.events(behaviour, model.bill(wire, behaviour, body), body), wire)

    def _refuse(self, status: int, content: Any, retry_after: str | None = None) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, say: Say, events: Iterable[str], wire: Wire) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(round(say.keep_alive_s / 0.05)):
            self._chunk(": keep-alive\n\n")
            time.sleep(0.05)
        for number, event in enumerate(events):
            if number == say.cut_after_events:
                break
            time.sleep(say.piece_after_s)
            if number == say.garble_event:
                event = event.replace("}\n\n", "\n\n")
            if say.error_event is not None and number == 1:
                self._chunk(wire.error_event(say.error_event))
                break
            self._chunk(event)
        if say.cut_after_events is not None and say.cut_how == "abruptly":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        payload = text.encode()
        self.wfile.write(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a test's output is pytest's."""


def _tokens(text: str) -> int:
    return math.ceil(len(text) / 4)
