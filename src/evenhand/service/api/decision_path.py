"""Decisions answered straight from the connection: the same checks as on every other way, without its ten layers.

Whatever is not an ordinary decision goes the ordinary way: another path, another kind of body, a key that has to be
looked up, a limit that is reached, an error. So this says nothing of its own; it only says yes to what all layers would
have let through, and gives the answer that the route would have given.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.errors import AccessError, EvenhandError
from evenhand.service.api.context import ServiceContext
from evenhand.service.api.error_handlers import ServiceHTTPException
from evenhand.service.api.json_bodies import parse_json_body
from evenhand.service.api.routes import shields
from evenhand.service.api.routes.shield_bodies import BatchRequest, DecisionRequest
from evenhand.service.auth.keys import ANONYMOUS_CALLER, Caller
from evenhand.service.auth.limits import COUNTED, PROBES, RequestCounts, address_of
from evenhand.service.auth.logging import request_id, tells_every_request
from evenhand.service.auth.middleware import SECURITY_HEADERS, check_host_name
from evenhand.service.settings import STREAM_NAME, LimitsConfig

OUTCOME = "evenhand.outcome"
"""In the scope of a request that was carried out here and failed: what was raised, for its route to answer."""

PATH = re.compile(rf"/v1/shields/({STREAM_NAME})/decisions(/batch)?")

UNUSUAL = frozenset({b"x-api-key", b"cookie", b"origin", b"sec-fetch-site", b"transfer-encoding", b"expect"})
"""Headers with which a request goes the ordinary way."""

_BODIES: tuple[TypeAdapter[Any], TypeAdapter[Any]] = (TypeAdapter(DecisionRequest), TypeAdapter(BatchRequest))
_ROUTES = ("/v1/shields/{name}/decisions", "/v1/shields/{name}/decisions/batch")
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_HEADERS = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class DecisionPathMiddleware:
    """Answers decisions before anything else sees them.

    Args:
        app: all else.
        limits: see the service's file.
        counts: of requests under way, shared with what holds everybody else to the limits.
    """

    def __init__(self, app: ASGIApp, limits: LimitsConfig, counts: RequestCounts) -> None:
        self._app, self._limits, self._counts = app, limits, counts
        self._hosts: dict[bytes, bool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        found = PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None or tells_every_request():
            await self._app(scope, receive, send)
            return
        context: ServiceContext = scope["app"].state.context
        name, many = found[1], found[2] is not None
        caller = self._caller(context, scope)
        if caller is None or not caller.is_allowed("decide") or not caller.may_use(name):
            await self._app(scope, receive, send)
            return
        counted = caller.key or f"@{address_of(scope)}"
        if name not in context.deciders or not self._counts.take(counted):
            await self._app(scope, receive, send)
            return
        scope[COUNTED] = True
        try:
            receive, asked = await self._read(_BODIES[many], receive)
            answer = None if asked is None else await self._decide(context, name, asked, scope)
        finally:
            self._counts.give_back(counted)
        if answer is None:
            await self._app(scope, receive, send)
            return
        context.metrics.count_response("POST", _ROUTES[many], 200)
        scope[ANSWERED_BY] = _ROUTES[many], name
        said, headers = answer
        body = _ENCODE(said).encode()
        raw = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        raw += [(name.encode(), value.encode()) for name, value in headers.items()]
        raw.append((b"x-request-id", request_id(scope).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": raw + _HEADERS})
        await send({"type": "http.response.body", "body": body})

    def _caller(self, context: ServiceContext, scope: Scope) -> Caller | None:
        """Return who asks, where that is plain; None: the ordinary way finds out, or refuses."""
        given: bytes | None = None
        host: bytes | None = None
        kind, size = b"", 0
        for header, value in scope["headers"]:
            if header == b"content-type":
                kind = value
            elif header == b"content-length":
                size = int(value) if value.isdigit() and len(value) < 10 else self._limits.body_bytes + 1
            elif header == b"authorization":
                if given is not None:
                    return None
                given = value
            elif header == b"host":
                host = value
            elif header in UNUSUAL:
                return None
        if kind.partition(b";")[0] != b"application/json" or not 0 < size <= self._limits.body_bytes:
            return None
        if context.settings.service.keys:
            scheme, _, key = (given or b"").partition(b" ")
            return context.keys.known_caller(key.strip().decode("latin-1")) if scheme.lower() == b"bearer" else None
        return ANONYMOUS_CALLER if self._is_own_name(host) else None

    def _is_own_name(self, host: bytes | None) -> bool:
        if host is None:
            return False
        known = self._hosts.get(host)
        if known is None:
            try:
                check_host_name(Headers(raw=[(b"host", host)]))
                known = True
            except AccessError:
                known = False
            if len(self._hosts) < 100:
                self._hosts[host] = known
        return known

    async def _read(self, body: TypeAdapter[Any], receive: Receive) -> tuple[Receive, Any]:
        """Return what receives the request once more, and what it asks; None where that is for the route to judge."""
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                message = await receive()
        except TimeoutError:
            return receive, None
        again = _receive_again(message, receive)
        if message["type"] != "http.request" or message.get("more_body", False):
            return again, None
        try:
            return again, body.validate_python(parse_json_body(message["body"]))
        except (ValidationError, ServiceHTTPException):
            return again, None

    async def _decide(
        self, context: ServiceContext, name: str, asked: Any, scope: Scope
    ) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        """Return the answer and its headers; None where the route has to answer with an error."""
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                if isinstance(asked, DecisionRequest):
                    return await shields.answer_individual(name, asked, context)
                return await shields.answer_batch(name, asked, context)
        except TimeoutError:
            scope[OUTCOME] = AccessError(
                f"there was no answer within {self._limits.request_seconds:g} seconds; it may have been carried out",
                code="late",
                hint="ask again, with the same id where there is one",
            )
        except EvenhandError as error:
            scope[OUTCOME] = error
        except Exception as fault:  # Whatever it is, it is told of, and answered, in one place.
            scope[OUTCOME] = fault
        return None


def _receive_again(message: Message, receive: Receive) -> Receive:
    told = False

    async def give() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return message

    return give


# Every request as a span of its own, the outermost of all that is traced.


ANSWERED_BY = "evenhand.answered_by"
"""In the scope: the route and the stream of a request that was answered before any route was looked for."""

STREAM_ROUTES = ("/v1/shields/", "/v1/streams/", "/v1/admin/streams/", "/v1/dashboard/streams/", "/v1/monitors/",
                 "/monitors/")  # fmt: skip
"""Beginnings of routes whose name is that of a stream or a monitor."""


class TracingMiddleware:
    """Traces every request but probes. It stands before everything else.

    Args:
        app: all else.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        tracing = scope["app"].state.context.ledger.tracing
        known = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]
                 if name in (b"traceparent", b"tracestate")}  # fmt: skip
        status = 500

        async def traced_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with tracing.request(scope["method"], known, request_id(scope)) as tell:
            try:
                await self._app(scope, receive, traced_send)
            finally:
                tell(status, *_route_and_stream(scope))


def _route_and_stream(scope: Scope) -> tuple[str | None, str | None]:
    if ANSWERED_BY in scope:
        found: tuple[str, str] = scope[ANSWERED_BY]
        return found
    route: Any = getattr(scope.get("route"), "path", None)
    if route is None or not route.startswith(STREAM_ROUTES):
        return route, None
    return route, scope.get("path_params", {}).get("name")
