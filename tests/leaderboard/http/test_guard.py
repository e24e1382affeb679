"""The Guard, around a small application and, for what no client library would send, by itself."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Form
from fastapi.testclient import TestClient
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from leaderboard.http.guard import HEADERS, Guard

BOARD = "http://board.example.org"
SAME_SITE = {"sec-fetch-site": "same-origin"}


def make_app() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    def page() -> Response:
        return Response("page", headers={"Content-Security-Policy": "default-src *", "Cache-Control": "max-age=60"})

    @app.get("/fault")
    def fault() -> None:
        raise RuntimeError("a fault of the application")

    @app.post("/act")
    def act(word: Annotated[str, Form()]) -> dict[str, str]:
        return {"word": word}

    return app


def make_client(base_url: str = BOARD, **options: Any) -> TestClient:
    guard = Guard(make_app(), ["board.example.org", "[::1]", "localhost:8080"], **options)
    return TestClient(guard, base_url=base_url, raise_server_exceptions=False)


@pytest.fixture
def client() -> TestClient:
    return make_client()


def test_every_answer_carries_the_strict_headers_once(client: TestClient) -> None:
    answers = [client.get(path) for path in ("/", "/fault", "/missing", "/?" + "a" * 5000)]
    answers += [client.post("/act", data={"word": "w"}, headers=SAME_SITE), client.post("/act", data={"word": "w"})]
    assert [answer.status_code for answer in answers] == [200, 500, 404, 414, 200, 403]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers.get_list(name) == [value]


def test_no_cache_keeps_what_an_action_returns(client: TestClient) -> None:
    assert client.post("/act", data={"word": "w"}, headers=SAME_SITE).headers["cache-control"] == "no-store"
    assert client.get("/").headers["cache-control"] == "max-age=60"
    assert client.post("/act").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("board.example.org", 200),
        ("BOARD.example.org:9999", 200),
        ("[::1]:8000", 200),
        ("localhost:8080", 200),
        ("localhost", 421),
        ("localhost:80", 421),
        ("evil.example", 421),
        ("board.example.org.evil.example", 421),
        ("evil.example:board.example.org", 400),
        ("board.example.org@evil.example", 400),
        ("board.example.org/", 400),
        ("", 400),
    ],
)
def test_hosts_are_those_that_are_allowed(client: TestClient, host: str, status: int) -> None:
    assert client.get("/", headers={"host": host}).status_code == status


def test_a_forwarded_host_counts_for_nothing(client: TestClient) -> None:
    forwarded = {"x-forwarded-host": "board.example.org", "x-forwarded-proto": "https"}
    assert client.get("/", headers={"host": "evil.example"} | forwarded).status_code == 421


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused(client: TestClient, method: str) -> None:
    answer = client.request(method, "/")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"


def test_addresses_and_their_parameters_are_bounded(client: TestClient) -> None:
    assert client.get("/", params={"a": "b" * 4000}).status_code == 200
    assert client.get("/" + "b" * 5000).status_code == 414
    assert client.get("/?" + "&".join(["a=b"] * 32)).status_code == 200
    assert client.get("/?" + "&".join(["a=b"] * 33)).status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": BOARD}, 403),
        ({"sec-fetch-site": "cross-site", "authorization": "Bearer cat_x"}, 403),
        ({"origin": BOARD}, 200),
        ({"origin": "https://board.example.org"}, 403),
        ({"origin": f"{BOARD}:8080"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example", "authorization": "Bearer cat_x"}, 403),
        ({}, 403),
        ({"referer": f"{BOARD}/"}, 403),
        ({"authorization": "Basic x"}, 403),
        ({"authorization": "Bearer cat_x"}, 200),
    ],
)
def test_actions_come_from_own_pages_or_with_a_token_in_a_header(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    assert client.post("/act", data={"word": "w"}, headers=headers).status_code == status


def test_a_port_belongs_to_an_origin() -> None:
    client = make_client("http://board.example.org:8080")
    data = {"word": "w"}
    assert client.post("/act", data=data, headers={"origin": "http://board.example.org:8080"}).status_code == 200
    assert client.post("/act", data=data, headers={"origin": BOARD}).status_code == 403


def test_behind_a_proxy_that_takes_tls_off_the_public_origin_is_own() -> None:
    client = make_client(public_origin="https://board.example.org")
    assert client.post("/act", data={"word": "w"}, headers={"origin": "https://board.example.org"}).status_code == 200
    assert client.post("/act", data={"word": "w"}, headers={"origin": "https://evil.example"}).status_code == 403


def test_a_prefix_of_the_path_is_no_concern_of_the_guard() -> None:
    """As uvicorn gives it: in front of the path, and by itself."""
    client = TestClient(Guard(make_app(), ["board.example.org"]), base_url=BOARD, root_path="/board")
    assert client.post("/board/act", data={"word": "w"}, headers=SAME_SITE).json() == {"word": "w"}


def test_bodies_are_bounded(client: TestClient) -> None:
    assert client.post("/act", data={"word": "w" * 60_000}, headers=SAME_SITE).status_code == 200
    assert client.post("/act", data={"word": "w" * 70_000}, headers=SAME_SITE).status_code == 413


def test_refuses_what_can_match_no_request() -> None:
    for hosts, origin in ([["http://board"], None], [["*"], None], [["board"], "board"], [["board"], "http://b/x"]):
        with pytest.raises(ValueError, match="give"):
            Guard(make_app(), hosts, public_origin=origin)


# By itself


def ask(app: Any, headers: dict[str, str], pieces: Iterable[bytes] = (b"",), method: str = "POST") -> tuple[int, int]:
    """Status, and how many pieces of the body were taken."""
    sent: list[Message] = []
    rest = list(pieces)
    count = len(rest)

    async def receive() -> Message:
        if not rest:
            return {"type": "http.disconnect"}
        piece = rest.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(rest)}

    async def send(message: Message) -> None:
        sent.append(message)

    all_headers = {"host": "board", "sec-fetch-site": "same-origin"} | headers
    scope: Scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
    }
    asyncio.run(Guard(app, ["board"], most_body_bytes=100)(scope, receive, send))
    return (sent[0]["status"] if sent else 0), count - len(rest)


async def count_body(scope: Scope, receive: Receive, send: Send) -> None:
    """Its status is how many bytes it was given."""
    count, more = 0, True
    while more:
        message = await receive()
        count += len(message["body"])
        more = message["more_body"]
    await send({"type": "http.response.start", "status": count})
    await send({"type": "http.response.body"})


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("the application saw the request")


def test_a_body_without_a_length_is_counted_as_it_comes() -> None:
    assert ask(count_body, {"transfer-encoding": "chunked"}, [b"x" * 50, b"x" * 50]) == (100, 2)
    assert ask(never, {"transfer-encoding": "chunked"}, [b"x" * 30] * 1000) == (413, 4)


def test_a_length_that_lies_bounds_nothing() -> None:
    assert ask(never, {"content-length": "10"}, [b"x" * 60] * 1000) == (413, 2)
    assert ask(never, {"content-length": "1000"}, [b"x"]) == (413, 0)


@pytest.mark.parametrize("length", ["", "-1", "1e3", "0x10", "+5", "9" * 30, "5, 5"])
def test_a_length_is_a_number(length: str) -> None:
    assert ask(never, {"content-length": length}, [b"x"]) == (400, 0)


def test_a_body_whose_end_two_headers_tell_is_refused() -> None:
    assert ask(never, {"content-length": "5", "transfer-encoding": "chunked"}, [b"x"]) == (400, 0)


@pytest.mark.parametrize("path", ["/a%00b", "/?op=%00", "/?%00=1"])
def test_a_nul_is_in_no_name(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 400


@pytest.mark.parametrize("headers", [{"content-length": "5"}, {"transfer-encoding": "chunked"}])
def test_what_only_reads_has_no_body(headers: dict[str, str]) -> None:
    assert ask(never, headers, [b"x" * 5], method="GET") == (400, 0)


def test_the_body_of_a_refused_request_is_not_read() -> None:
    assert ask(never, {"sec-fetch-site": "cross-site"}, [b"x"] * 10) == (403, 0)


def test_a_client_that_leaves_while_it_sends_is_let_go() -> None:
    async def leave() -> list[Message]:
        sent: list[Message] = []
        left = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}]

        async def receive() -> Message:
            return left.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"board"), (b"sec-fetch-site", b"none")]
        scope = {
            "type": "http",
            "method": "POST",
            "scheme": "http",
            "path": "/",
            "query_string": b"",
            "headers": headers,
        }
        await Guard(never, ["board"])(scope, receive, send)
        return sent

    assert asyncio.run(leave()) == []


def test_two_hosts_are_none() -> None:
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/", "query_string": b""}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope["headers"] = [(b"host", b"board"), (b"Host", b"evil")]
    asyncio.run(Guard(never, ["board"])(scope, lambda: asyncio.sleep(0), send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 400


def test_a_websocket_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(Guard(never, ["board"])({"type": "websocket"}, lambda: asyncio.sleep(0), send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_streaming_answer_passes_as_it_comes() -> None:
    """The second piece is made only when the first has arrived."""
    arrived = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.wait_for(arrived.wait(), 10)
        yield b"second"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await StreamingResponse(pieces())(scope, receive, send)

    got: list[bytes] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            got.append(message["body"])
            arrived.set()

    async def receive() -> Message:
        await asyncio.sleep(10)
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/", "query_string": b"",
             "headers": [(b"host", b"board")], "asgi": {"spec_version": "2.3"}}  # fmt: skip
    asyncio.run(Guard(app, ["board"])(scope, receive, send))
    assert got == [b"first", b"second", b""]


def test_an_action_hears_that_its_client_has_left() -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([(await receive())["type"], (await receive())["type"]])

    ask(app, {}, [b"x"])
    assert heard == ["http.request", "http.disconnect"]
