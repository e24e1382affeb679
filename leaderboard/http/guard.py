"""Guard: what every request passes before the page sees it, and what every answer carries.

There are no cookies and no sessions: each action carries its token in the form's body or in the Authorization header,
so no browser adds authority to a request that another site made. That other sites' requests are refused all the same
keeps a person who was lured there from sending a form that holds a token.

The Guard goes around the whole application, `Guard(app, …)`, and not among its middleware: answers to faults of the
application are made outside of those. It is plain ASGI: answers that stream pass as they come.

Behind a proxy. A prefix of the path that the proxy strips is `uvicorn.run(…, root_path="/leaderboard")`; the Guard
need not know it. The proxy must hand on `Host` as the browser sent it. `X-Forwarded-*` is looked at neither here nor,
with `proxy_headers=False`, by uvicorn, whose default trusts them from 127.0.0.1; a setting that names the proxy's
address may turn it on: `uvicorn.run(…, proxy_headers=True, forwarded_allow_ips="10.0.0.7")`. Without it a page that TLS
is taken off before is asked for by http, so `public_origin` must say what browsers call it.

Not here: slow clients and the size of headers are the server's to bound (`h11_max_incomplete_event_size`,
`timeout_keep_alive`, `limit_concurrency`), and tokens are the actions' to ask for.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), "
    "publickey-credentials-get=(), serial=(), usb=()",
}
"""Of every answer, whatever the application says."""

_METHODS = ("GET", "HEAD", "POST")
_HOST = re.compile(r"(?P<name>[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    message: str


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        allowed_hosts: Sequence[str],
        *,
        public_origin: str | None = None,
        most_body_bytes: int = 1 << 16,
        most_url_bytes: int = 4096,
        most_query_parameters: int = 32,
    ) -> None:
        """`allowed_hosts`: names that browsers may know the page by, `board.example.org` at any port, or
        `board.example.org:8080` at that one; an IPv6 address in brackets. Any other is refused, so that no site can
        give its own name the page's address.

        `public_origin`: `https://board.example.org`, where a proxy takes TLS off. Raises ValueError for what can match
        no request.
        """
        self._app = app
        self._hosts = frozenset(host.lower() for host in allowed_hosts)
        for host in self._hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is no host: give a name or an address, with or without a port")
        self._public_origin = None if public_origin is None else public_origin.lower()
        if public_origin is not None and not re.fullmatch(r"https?://[^/?#@]+", public_origin):
            raise ValueError(f"{public_origin!r} is no origin: give https://HOST without a path")
        self._most_body_bytes, self._most_url_bytes = most_body_bytes, most_url_bytes
        self._most_query_parameters = most_query_parameters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket: the page has none
            await send({"type": "websocket.close", "code": 1008})
            return
        is_read = scope["method"] in ("GET", "HEAD")
        send = _with_headers(send, is_kept=is_read)
        refusal = self._look_at(scope)
        if refusal is not None:
            await _refuse(send, refusal, scope["path"])
            return
        if is_read:
            await self._app(scope, receive, send)
            return
        match await self._read_body(receive):
            case bytes() as body:
                await self._app(scope, _replay(body, receive), send)
            case _Refusal() as refusal:
                await _refuse(send, refusal, scope["path"])
            case None:
                pass

    def _look_at(self, scope: Scope) -> _Refusal | None:
        """What is wrong before the body; None: nothing."""
        method = scope["method"]
        if method not in _METHODS:
            return _Refusal(405, "only GET, HEAD and POST are answered here")
        path = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
        if len(path) + len(scope["query_string"]) > self._most_url_bytes:
            return _Refusal(414, f"an address has at most {self._most_url_bytes} bytes here")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return _Refusal(400, "nothing here has a name with a NUL")
        if scope["query_string"].count(b"&") >= self._most_query_parameters:
            return _Refusal(400, f"a query has at most {self._most_query_parameters} parameters here")
        hosts = _values(scope, b"host")
        host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return _Refusal(400, "a request names one host")
        if not {hosts[0], host["name"]} & self._hosts:
            return _Refusal(421, "this host's pages are not served here: its name is not among the allowed hosts")
        if (refusal := self._look_at_length(scope)) is not None:
            return refusal
        return self._look_at_site(scope, host) if method == "POST" else None

    def _look_at_length(self, scope: Scope) -> _Refusal | None:
        lengths, is_chunked = _values(scope, b"content-length"), bool(_values(scope, b"transfer-encoding"))
        if len(lengths) > 1 or not all(re.fullmatch("[0-9]{1,18}", length) for length in lengths):
            return _Refusal(400, "a request has one length, a number")
        if lengths and is_chunked:  # a proxy and this server might see the end of the body at different places
            return _Refusal(400, "a request has a length or is chunked, and not both")
        length = int(lengths[0]) if lengths else 0
        if scope["method"] != "POST" and (length or is_chunked):
            return _Refusal(400, "only POST has a body")
        return self._too_large() if length > self._most_body_bytes else None

    def _look_at_site(self, scope: Scope, host: re.Match[str]) -> _Refusal | None:
        """Whether another site's page made the request, as the browser says. One that says nothing of it is no browser,
        or one of before 2023 without an Origin; then only a header that no form can send will do."""
        fetch_sites, origins = _values(scope, b"sec-fetch-site"), _values(scope, b"origin")
        if fetch_sites:
            is_own = set(fetch_sites) <= {"same-origin", "none"}
        elif origins:
            scheme, port = scope["scheme"], host["port"]
            own = f"{scheme}://{host['name']}" + ("" if port in (None, _DEFAULT_PORTS.get(scheme)) else f":{port}")
            is_own = set(origins) <= {own, self._public_origin}
        else:
            is_own = any(value.startswith("bearer ") for value in _values(scope, b"authorization"))
        return None if is_own else _Refusal(403, "actions are taken from this page's own forms, or with a Bearer token")

    async def _read_body(self, receive: Receive) -> bytes | _Refusal | None:
        """All of it, counted as it comes, whatever length it claimed; None: the client is gone."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > self._most_body_bytes:
                return self._too_large()
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> _Refusal:
        return _Refusal(413, f"a body has at most {self._most_body_bytes} bytes here")


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip().lower() for key, value in scope["headers"] if key.lower() == name]


def _with_headers(send: Send, *, is_kept: bool) -> Send:
    """`is_kept` False: no cache may keep the answer."""
    added = HEADERS if is_kept else HEADERS | {"cache-control": "no-store"}
    ours = [(name.encode(), value.encode()) for name, value in added.items()]
    names = {name for name, _ in ours}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name, value) for name, value in message.get("headers", ()) if bytes(name).lower() not in names]
            message = {**message, "headers": [*own, *ours]}
        await send(message)

    return send_with_headers


def _replay(body: bytes, receive: Receive) -> Receive:
    left = [body]

    async def receive_again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return receive_again


async def _refuse(send: Send, refusal: _Refusal, path: str) -> None:
    """As the API says what it says, or in plain words."""
    is_api = "/api/" in path
    text = (json.dumps({"detail": refusal.message}) if is_api else f"{refusal.message}\n").encode()
    headers = [
        (b"content-type", b"application/json" if is_api else b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"cache-control", b"no-store"),
        # What is left of a body is not read.
        (b"connection", b"close"),
    ]
    if refusal.status == 405:
        headers.append((b"allow", ", ".join(_METHODS).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
