"""open_load: requests at times that a clock sets, whether or not earlier ones were answered.

Arrivals are a Poisson process. Latency runs from when a request was due, so that a server that falls behind, or a
client that does, is not measured by the fewer requests that it lets through (Tene, "How NOT to Measure Latency").
"""

import asyncio
import gc
import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    page: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    page: str
    path: str
    due_s: float
    """Since the load began."""
    latency_s: float
    """From when it was due to the last byte."""
    late_s: float
    """How long after it was due the client sent it: its own fault."""
    status: int
    """0: the connection broke."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def get(self, path: str, host: str) -> tuple[int, int]:
        """Status and length of the body."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        length = next(
            int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        await self.reader.readexactly(length)
        return status, length


async def open_load(
    host: str,
    port: int,
    choose: Callable[[random.Random], Asked],
    *,
    readers: int,
    requests_per_s: float,
    seconds: float,
    seed: int,
) -> list[Answered]:
    """Each of `readers` asks `requests_per_s` times a second on average; connections stay open, and there are as many
    as are needed at once.

    A connection that breaks is an answer of status 0. Raises ExceptionGroup for what else goes wrong with a request.
    """
    idle: list[_Connection] = []
    answers: list[Answered] = []
    began_s = time.perf_counter() + 0.5

    async def get(path: str) -> tuple[int, int]:
        """On a connection that is open, if it still is; else on a new one."""
        while idle:
            connection = idle.pop()
            try:
                answer = await connection.get(path, f"{host}:{port}")
            except (OSError, asyncio.IncompleteReadError):
                connection.writer.close()  # the server closes those that lie idle
                continue
            idle.append(connection)
            return answer
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        connection = _Connection(reader=reader, writer=writer)
        answer = await connection.get(path, f"{host}:{port}")
        idle.append(connection)
        return answer

    async def ask(asked: Asked, due_s: float) -> None:
        late_s = time.perf_counter() - due_s
        try:
            status, length = await get(asked.path)
        except (OSError, asyncio.IncompleteReadError):
            status = length = 0
        latency_s = time.perf_counter() - due_s
        answers.append(
            Answered(
                page=asked.page,
                path=asked.path,
                due_s=due_s - began_s,
                latency_s=latency_s,
                late_s=late_s,
                status=status,
                bytes=length,
            )
        )

    async def read(reader: int, tasks: asyncio.TaskGroup) -> None:
        chance = random.Random(seed * 1000 + reader)
        due_s = began_s + chance.expovariate(requests_per_s)
        while due_s < began_s + seconds:
            asked = choose(chance)
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            tasks.create_task(ask(asked, due_s))
            due_s += chance.expovariate(requests_per_s)

    gc.disable()
    try:
        async with asyncio.TaskGroup() as tasks:
            for reader in range(readers):
                tasks.create_task(read(reader, tasks))
    finally:
        gc.enable()
        for connection in idle:
            connection.writer.close()
    return answers
