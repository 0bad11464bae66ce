"""The gate: who asks is found out before anything of what they send is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.errors import AccessError, EvenhandError
from evenhand.service import faults
from evenhand.service.security.keys import ANYONE, COOKIE, no_key

if TYPE_CHECKING:
    from evenhand.service.context import Context

PUBLIC = ("/healthz", "/readyz", "/openapi.json", "/login", "/logout")
"""Paths that need no key."""

ASSETS = "/assets/"
"""Under this lie the dashboard's scripts and styles, which need no key either: they are the same for everybody."""

PICTURES = "/v1/pictures/"
"""Under this lie pictures whose addresses nobody can guess; whoever was given one needs nothing else."""

SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""


class Gate:
    """Lets nobody in without a key, but to what is public; ``requires`` of each route then looks at the key's scopes.

    A service without keys lets everybody in who asks for its own machine's name. A web page in the browser of somebody
    who sits there is none of them: neither one that sends requests across sites, nor one that has a name of its own
    made to point here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        context: Context = scope["app"].state.context
        try:
            key = self._key(context, scope, headers)
            caller = ANYONE if not context.settings.service.keys else None
            if key is not None and not is_public(scope["path"]):
                caller = await context.keys.caller(key)
        except EvenhandError as error:
            page = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
            answer = RedirectResponse("/login", 303) if page and _unknown(error) else faults.answer(error)
            await answer(scope, receive, send)
            return
        scope["evenhand.caller"] = caller
        await self._app(scope, receive, _while_valid(key, context, send) if key and caller else send)

    def _key(self, context: Context, scope: Scope, headers: Headers) -> str | None:
        """The key in a request; None: it needs none."""
        if not context.settings.service.keys:
            _own_name(headers)
            _own_page(scope, headers)
            return None
        key = presented(headers)
        if key is None and (key := _cookies(headers).get(COOKIE)) is not None:
            _own_page(scope, headers)
        if not key and not is_public(scope["path"]):
            raise no_key()
        return key


def _while_valid(key: str, context: Context, send: Send) -> Send:
    """Ends a stream of events soon after its key has."""
    flows = ended = False

    async def watched(message: Message) -> None:
        nonlocal flows, ended
        if message["type"] == "http.response.start":
            flows = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
        elif flows and not ended:
            try:
                await context.keys.caller(key)
            except EvenhandError:
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        # The server then tells whatever makes the events that nobody listens.
        if not ended:
            await send(message)

    return watched


def is_public(path: str) -> bool:
    """Whether a path needs no key."""
    return path in PUBLIC or path.startswith((ASSETS, PICTURES))


def presented(headers: Headers) -> str | None:
    """The key in the headers of a request.

    Raises:
        AccessError: there are several, or it is not written as it must be.
    """
    given = headers.getlist("authorization")
    plain = headers.getlist("x-api-key")
    if not given and not plain:
        return None
    kind, _, key = (given[0] if given else f"Bearer {plain[0]}").partition(" ")
    if len(given) > 1 or len(plain) > 1 or kind.lower() != "bearer":
        raise no_key()
    return key.strip()


def _unknown(error: EvenhandError) -> bool:
    return isinstance(error, AccessError) and error.code == "key"


def _cookies(headers: Headers) -> Mapping[str, Any]:
    return cookie_parser(headers.get("cookie", ""))


def _own_name(headers: Headers) -> None:
    host = headers.get("host", "").lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    numeric = ":" in name or name.replace(".", "").isdigit()
    # Nobody else can own a name without a dot, or an address.
    if not (numeric or "." not in name or name.endswith(".localhost")):
        raise AccessError(
            f"a service without keys does not answer to the name {name!r}",
            code="origin",
            mend="ask for localhost; or have it want keys: [service] keys = true",
        )


def _own_page(scope: Scope, headers: Headers) -> None:
    """Where no key is written into the request, another site's page may have sent it."""
    if scope["method"] in SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    own = site == "same-origin" if site is not None else origin is None or _host(origin) == headers.get("host")
    if not own:
        raise AccessError("another site's page sent this", code="origin", mend="send the key in a header")


def _host(origin: str) -> str:
    return origin.partition("://")[2]
