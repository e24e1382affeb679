"""A client that sends half a request is cut off; one that sends it slowly but in time, and streams, are not."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from leaderboard.http import impatient
from leaderboard.http.impatient import ImpatientProtocol

PATIENCE_S = 0.6


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body, and answers `/slow` after longer than a request may take to arrive."""
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * PATIENCE_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[int]:
    config = uvicorn.Config(application, http=ImpatientProtocol, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server._serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = True
        await serving


async def answer_to(port: int, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """What comes back until the server closes, or has answered and says nothing for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(pause_s)
    heard = b""
    with contextlib.suppress(TimeoutError):
        while chunk := await asyncio.wait_for(reader.read(4096), 5 * PATIENCE_S):
            heard += chunk
            if heard.endswith(b"ok"):
                break
    writer.close()
    return heard


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"


@pytest.mark.parametrize(
    "parts",
    [(), (b"GET / HT",), (b"GET / HTTP/1.1\r\nHost: x\r\n",), (HEAD,), (HEAD, b"ab")],
    ids=["nothing", "half a line", "half a head", "no body", "half a body"],
)
def test_an_unfinished_request_is_cut_off(monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes, ...]) -> None:
    monkeypatch.setattr(impatient, "REQUEST_S", PATIENCE_S)

    async def ask() -> bool:
        async with served() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.writelines(parts)
            closed = await asyncio.wait_for(reader.read(), 20 * PATIENCE_S)
            writer.close()
            return closed == b""

    assert asyncio.run(ask())


@pytest.mark.parametrize(
    "parts",
    [
        (b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n",),
        (HEAD[:10], HEAD[10:], b"ab", b"cd"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"),
    ],
    ids=["a slow answer", "in pieces", "twice on one connection"],
)
def test_whoever_finishes_in_time_is_answered(monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes, ...]) -> None:
    monkeypatch.setattr(impatient, "REQUEST_S", PATIENCE_S)

    async def ask() -> bytes:
        async with served() as port:
            return await answer_to(port, *parts, pause_s=0.05)

    assert asyncio.run(ask()).endswith(b"ok")
