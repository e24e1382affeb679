"""post_over_http: one POST to a webhook's target. It follows no redirects, uses no proxy and keeps nothing of the
answer but its status."""

import contextlib
import socket
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from threading import Timer
from urllib.parse import urlsplit

TIMEOUT_S = 10.0
"""To connect to an address of the host, and again for all of the request and its answer."""
_MOST_ANSWER_BYTES = 1024


class PostFailed(Exception):
    """No answer; the message says what kind of fault it was, in our words."""


def post_over_http(url: str, headers: Mapping[str, str], body: bytes, timeout_s: float = TIMEOUT_S) -> int:
    """The status of the answer. Raises PostFailed."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = (
        HTTPSConnection(host, parts.port, timeout=timeout_s, context=ssl.create_default_context())
        if parts.scheme == "https"
        else HTTPConnection(host, parts.port, timeout=timeout_s)
    )
    try:
        connection.connect()
        # The timeout bounds each wait for a byte; a target that sends one now and then would hold us for hours.
        deadline = Timer(timeout_s, _shut, [connection.sock])
        deadline.daemon = True
        deadline.start()
        try:
            connection.request("POST", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), body, headers)
            answer = connection.getresponse()
            content = answer.read(_MOST_ANSWER_BYTES)
            if answer.length and len(content) < _MOST_ANSWER_BYTES:
                raise IncompleteRead(content, answer.length)
        finally:
            deadline.cancel()
        return answer.status
    except (OSError, HTTPException) as error:
        raise PostFailed(f"no answer ({type(error).__name__})") from error
    finally:
        connection.close()


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        # Of the connection itself: a TLS socket's own would take its state away from the thread that reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
