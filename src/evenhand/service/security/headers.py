"""What every answer carries for browsers, and header values that nothing can break out of."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS = {
    # Scripts, styles and pictures of the service's own, and nothing else; no page may frame ours.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Unless a route says otherwise."""


class Headed:
    """Gives every answer the headers that keep browsers from harm, and makes all values of headers harmless."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(name, harmless(value)) for name, value in message.get("headers", ())]
                headers = MutableHeaders(raw=message["headers"])
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, headed)


def harmless(value: bytes) -> bytes:
    """A header's value in printable ASCII: what is not is percent-encoded, byte by byte."""
    if value.isascii() and value.decode("ascii").isprintable():
        return value
    return b"".join(bytes([one]) if 32 <= one < 127 else b"%%%02X" % one for one in value)


def header_text(text: str) -> str:
    """A text that comes from elsewhere, such as the name of a group, as a header's value."""
    return quote(text, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~", errors="replace")
