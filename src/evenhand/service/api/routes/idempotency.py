"""Answers to requests with an ``Idempotency-Key``: what the same request asks for under the same key is made once.

A row is written before anything is generated, and the answer into it before the caller gets it. So however the first
attempt ended, a second one finds out: there is the answer; or it is under way; or its process died, and what came of it
is not known. Only an attempt that was answered with an error leaves nothing, and can be repeated under its key.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection, delete, select, update

from evenhand.errors import DecisionError, OptionError, StoreError
from evenhand.service.api.context import ServiceContext
from evenhand.service.api.json_bodies import JsonRequest, JsonRoute
from evenhand.service.auth.keys import Caller
from evenhand.service.store.chain import canonical_json
from evenhand.service.store.tables import insert_if_absent, replicas, responses

logger = logging.getLogger("evenhand.service")

T = TypeVar("T")

MAX_KEY_LENGTH = 255
"""Characters of a key."""

KEPT_HEADERS = ("content-type", "cache-control")
"""Besides the service's own, which begin with ``x-evenhand-``."""


class IdempotentRoute(JsonRoute):
    """A route that takes a JSON body and makes something of it, once for each key that its callers give."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Build the request handler."""
        handler = super().get_route_handler()

        async def answer(given: Request) -> Response:
            request = JsonRequest(given.scope, given.receive)
            caller: Caller | None = request.scope.get("evenhand.caller")
            key = request.headers.get("idempotency-key")
            # Who may not ask at all is told so by the route itself.
            if key is None or request.method != "POST" or caller is None or not caller.is_allowed("generate"):
                return await handler(request)
            _check_key(key)
            name = _sha256_hex([caller.name, request.url.path, key])
            asked = hashlib.sha256(await request.body()).hexdigest()
            context: ServiceContext = request.app.state.context
            before = await _in_store(context, lambda connection: _begin(connection, context, name, asked))
            if before is not None:
                return before
            try:
                response = await handler(request)
                if isinstance(response, StreamingResponse):
                    # What is kept is whole: under a key, events are sent when all of them are there.
                    parts = [
                        part if isinstance(part, bytes) else str(part).encode() async for part in response.body_iterator
                    ]
                    response = Response(b"".join(parts), response.status_code, dict(response.headers))
            except Exception:
                await _in_store(context, lambda connection: _forget(connection, name))
                raise
            try:
                await _in_store(context, lambda connection: _finish(connection, name, response))
            except StoreError as error:
                # The items were counted and belong to the caller; only a repeated request will not get them.
                logger.warning("an answer could not be kept for its idempotency key: %s", error.message)
            return response

        return answer


async def _in_store(context: ServiceContext, work: Callable[[Connection], T]) -> T:
    return await asyncio.wrap_future(context.ledger.submit_work(work, durable=True))


def _check_key(key: str) -> None:
    if not (1 <= len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise OptionError(
            f"expected a key of 1 to {MAX_KEY_LENGTH} printable characters of ASCII, got one of {len(key)} characters",
            location="Idempotency-Key",
            hint="a new UUID for every new request",
        )


def _begin(connection: Connection, context: ServiceContext, name: str, asked: str) -> Response | None:
    """Return the answer that was given before, or note that one is being made.

    Raises:
        DecisionError: the key was used for another request, or the answer to it is not there.
    """
    now = time.time()
    mine = {"name": name, "asked": asked, "at": now, "replica": context.replica}
    if connection.execute(insert_if_absent(connection, responses).values(mine)).rowcount:
        return None
    row = connection.execute(select(responses).where(responses.c.name == name)).one()
    if row.asked != asked:
        raise DecisionError(
            "the idempotency key was used for another request", code="repeated", hint="give every request its own key"
        )
    if row.status is None:
        lives = connection.execute(select(replicas.c.name).where(replicas.c.name == row.replica)).first() is not None
        if lives and now - row.at <= context.settings.limits.request_seconds:
            what, hint = "is under way", "ask again later"
        else:
            what, hint = "ended, and its answer is not known", "its items may be in the log; ask again with a new key"
        raise DecisionError(f"the request with this idempotency key {what}", code="repeated", hint=hint)
    return Response(row.body, row.status, {**json.loads(row.headers), "x-evenhand-repeated": "true"})


def _finish(connection: Connection, name: str, response: Response) -> None:
    headers = {
        header: value
        for header, value in response.headers.items()
        if header in KEPT_HEADERS or header.startswith("x-evenhand-")
    }
    values = {"status": response.status_code, "headers": canonical_json(headers), "body": bytes(response.body)}
    connection.execute(update(responses).where(responses.c.name == name).values(**values))


def _forget(connection: Connection, name: str) -> None:
    connection.execute(delete(responses).where(responses.c.name == name))


def _sha256_hex(parts: list[str]) -> str:
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()
