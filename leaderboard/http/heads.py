"""answer_heads: HEAD as GET without its body, for an application whose pages know GET alone."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def answer_heads(app: ASGIApp) -> ASGIApp:
    """The answer's headers are those of GET, its length among them (RFC 9110, 9.3.2)."""

    async def with_heads(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await app(scope, receive, send)
            return
        is_sent = False

        async def send_head(message: Message) -> None:
            nonlocal is_sent
            if message["type"] == "http.response.start":
                await send(message)
            elif message["type"] == "http.response.body" and not is_sent:
                is_sent = True  # an answer that would stream has ended for the client, and hears so of its server
                await send({"type": "http.response.body", "body": b""})

        await app({**scope, "method": "GET"}, receive, send_head)

    return with_heads
