"""The load of the benchmark: what is answered is counted, and what goes wrong otherwise is heard."""

import asyncio
import gc

import pytest

from benchmarks.open_load import Asked, open_load
from benchmarks.percentile import percentile_ms

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
UNREADABLE = b"HTTP/1.1 never OK\r\nContent-Length: 4\r\n\r\npage"


async def load_on(answer: bytes):
    async def serve(reader, writer):
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(answer)
        except asyncio.IncompleteReadError:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        return await open_load(
            "127.0.0.1",
            server.sockets[0].getsockname()[1],
            lambda chance: Asked(page="home", path="/"),
            readers=2,
            requests_per_s=50.0,
            seconds=0.5,
            seed=0,
        )


def test_every_request_is_answered_and_counted():
    answers = asyncio.run(load_on(PAGE))
    assert len(answers) > 5
    assert {(each.status, each.bytes) for each in answers} == {(200, 4)}
    assert gc.isenabled()


def test_an_error_that_is_no_broken_connection_is_heard():
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(load_on(UNREADABLE))
    assert raised.group_contains(ValueError)
    assert gc.isenabled()


def test_a_percentile_is_one_of_the_values():
    values_s = [number / 1000 for number in range(100, 0, -1)]
    assert [percentile_ms(values_s, share) for share in (0.5, 0.99, 0.991, 1.0)] == [50.0, 99.0, 100.0, 100.0]
    assert percentile_ms([0.0071], 0.01) == 7.1
    with pytest.raises(ValueError, match="no values"):
        percentile_ms([], 0.5)
