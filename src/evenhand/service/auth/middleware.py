"""Authentication, before the body of a request is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.errors import AccessError, EvenhandError
from evenhand.service.api import error_handlers
from evenhand.service.auth.keys import ANONYMOUS_CALLER, COOKIE, missing_key_error
from evenhand.service.auth.limits import PROBES, address_of, refusal_response

if TYPE_CHECKING:
    from evenhand.service.api.context import ServiceContext


PUBLIC_PATHS = (*PROBES, "/openapi.json", "/login", "/login/oidc", "/login/callback", "/logout")
"""Paths that need no key."""

ASSETS = "/assets/"
"""Under this lie the dashboard's scripts and styles, which need no key either: they are the same for everybody."""

PICTURES = "/v1/pictures/"
"""Pictures lie under this path; their addresses cannot be guessed, so knowing one is enough to open it."""

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""HTTP methods without side effects."""


class AuthMiddleware:
    """Refuses requests without a key, except for public routes; then each route checks the key's scopes (``requires``).

    A service without keys lets everybody in who asks for its own machine's name. A web page in the browser of somebody
    who sits there is none of them: neither one that sends requests across sites, nor one that has a name of its own
    made to point here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        context: ServiceContext = scope["app"].state.context
        try:
            key = self._key(context, scope, headers)
            caller = ANONYMOUS_CALLER if not context.settings.service.keys else None
            if key is not None and not is_public(scope["path"]):
                caller = await context.keys.caller(key)
        except EvenhandError as error:
            await _refusal(context, error, scope, headers)(scope, receive, send)
            return
        scope["evenhand.caller"] = caller
        await self._app(scope, receive, _send_while_valid(key, context, send) if key and caller else send)

    def _key(self, context: ServiceContext, scope: Scope, headers: Headers) -> str | None:
        """Return the key in a request; None: it needs none."""
        if not context.settings.service.keys:
            check_host_name(headers)
            _check_origin(context, scope["method"], headers)
            return None
        key = presented_key(headers)
        if key is None and (key := _parse_cookies(headers).get(COOKIE)) is not None:
            _check_origin(context, scope["method"], headers)
        if not key and not is_public(scope["path"]):
            raise missing_key_error()
        return key


def _send_while_valid(key: str, context: ServiceContext, send: Send) -> Send:
    """End a stream of events soon after its key has ended."""
    flows = ended = False

    async def send_while_valid(message: Message) -> None:
        nonlocal flows, ended
        if message["type"] == "http.response.start":
            flows = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
        elif flows and not ended:
            try:
                await context.keys.caller(key)
            except EvenhandError:
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        # The server then tells whatever makes the events that there is no listener.
        if not ended:
            await send(message)

    return send_while_valid


def is_public(path: str) -> bool:
    """Return whether a path needs no key."""
    return path in PUBLIC_PATHS or path.startswith((ASSETS, PICTURES))


def presented_key(headers: Headers) -> str | None:
    """Return the key in the headers of a request.

    Raises:
        AccessError: there are several, or it is not written as it must be.
    """
    given = headers.getlist("authorization")
    plain = headers.getlist("x-api-key")
    if not given and not plain:
        return None
    kind, _, key = (given[0] if given else f"Bearer {plain[0]}").partition(" ")
    if len(given) > 1 or len(plain) > 1 or kind.lower() != "bearer":
        raise missing_key_error()
    return key.strip()


def _refusal(context: ServiceContext, error: EvenhandError, scope: Scope, headers: Headers) -> Response:
    """Return the answer to a request that does not get in; pages are led to where a key can be entered."""
    if not isinstance(error, AccessError) or error.code != "key":
        return error_handlers.error_response(error)
    if scope["method"] in ("GET", "HEAD") and "text/html" in headers.get("accept", ""):
        return RedirectResponse("/login", 303)
    return refusal_response(context.failures.refusal(error, address_of(scope)))


def _parse_cookies(headers: Headers) -> Mapping[str, Any]:
    return cookie_parser(headers.get("cookie", ""))


def check_host_name(headers: Headers) -> None:
    """Check the host name of a request to a service without keys, against DNS rebinding.

    Raises:
        AccessError: it is such a name.
    """
    host = headers.get("host", "").lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    numeric = ":" in name or name.replace(".", "").isdigit()
    # No one else can own a name without a dot, or an address.
    if not (numeric or "." not in name or name.endswith(".localhost")):
        raise AccessError(
            f"a service without keys does not answer to the name {name!r}",
            code="origin",
            hint="ask for localhost; or have it want keys: [service] keys = true",
        )


def _check_origin(context: ServiceContext, method: str, headers: Headers) -> None:
    """Refuse requests without a key in a header that another site's page may have sent."""
    if method not in SAFE_METHODS and not is_own_page(headers, context.settings.service.public_url):
        raise AccessError("another site's page sent this", code="origin", hint="send the key in a header")


def is_own_page(headers: Headers, public_url: str | None) -> bool:
    """Return whether a page of the service itself sent a request, or no page at all, as far as the browser says.

    Args:
        headers: of the request.
        public_url: the address under which browsers know the service, if it is another than that of the request.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin == public_url or origin.partition("://")[2] == headers.get("host")
