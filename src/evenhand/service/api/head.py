"""HEAD wherever GET is: the head of the answer that GET would give."""

from __future__ import annotations

from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _HeadSentError(OSError):
    """Raised where an answer would go on for longer than its head."""


class HeadMiddleware:
    """Asks for HEAD as for GET, and leaves out the body. It stands behind all other middleware, which see HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                # What others want to know of the route that answered.
                scope["route"] = asked.get("route")
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            elif message.get("more_body", False):
                # Some answers never end.
                raise _HeadSentError

        with suppress(_HeadSentError, ClientDisconnect):
            await self._app(asked, receive, send_head)
