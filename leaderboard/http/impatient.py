"""ImpatientProtocol: uvicorn's HTTP, but a client that does not finish its request is cut off.

Uvicorn waits for as long as it takes; some hundred connections that send half a request each would keep every reader
out. Answers may take what they take: streams do.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 15.0
"""From a connection's first moment, or a later request's first byte, to the request's last."""


class ImpatientProtocol(H11Protocol):
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_S, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        begun, _ = self.conn.trailing_data
        is_unfinished = self.conn.their_state is h11.SEND_BODY or (self.conn.their_state is h11.IDLE and bool(begun))
        if not is_unfinished:
            self._forget_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
