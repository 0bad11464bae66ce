"""What the dashboard shows, as its pages ask for it. Not part of the interface that is promised."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection, select

from evenhand import __version__
from evenhand.errors import DecisionError
from evenhand.service.context import Context, context_of
from evenhand.service.dashboard.rows import COLUMNS, Row, Wanted
from evenhand.service.dashboard.standing import Standing
from evenhand.service.dashboard.windows import KINDS, WINDOW, all_found, found, streams_of, window
from evenhand.service.faults import Fault
from evenhand.service.pictures import Pictures
from evenhand.service.security import Caller, requires
from evenhand.service.store.tables import streams

router = APIRouter(prefix="/v1/dashboard", include_in_schema=False, dependencies=[requires("read")])

Here = Annotated[Context, Depends(context_of)]

PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Media types that a browser only draws; what may hold a script is not handed to it."""


def wanted(
    since: float | None = None,
    until: float | None = None,
    marked: bool = False,
    text: Annotated[str, Query(max_length=200)] = "",
) -> Wanted:
    """The rows that a request wants."""
    return Wanted(since, until, marked, text.strip())


Asked = Annotated[Wanted, Depends(wanted)]


@router.get("")
async def begin(here: Here, caller: Annotated[Caller, requires("read")]) -> dict[str, Any]:
    """Every stream, and what the holder of the key may do."""

    def read() -> list[dict[str, Any]]:
        with here.database.reading() as connection:
            return streams_of(connection)

    models = {name: guard.models[0] for name, guard in here.guards.items() if guard.makes == "image"}
    return {
        "version": __version__,
        "streams": await run_in_threadpool(read),
        "caller": {"name": caller.name, "key": bool(caller.key), "generate": caller.may("generate")},
        "models": models,
    }


@router.get("/streams/{name}")
async def stands(name: str, here: Here, request: Request) -> dict[str, Any]:
    """Where a stream stands."""
    state = request.app.state
    if not hasattr(state, "standing"):
        state.standing = Standing()

    def read() -> dict[str, Any]:
        with here.database.reading() as connection:
            described: dict[str, Any] = state.standing.of(connection, name)
            return described

    return await run_in_threadpool(read)


@router.get("/streams/{name}/window")
async def latest(
    name: str, here: Here, asked: Asked, limit: Annotated[int, Query(ge=1, le=WINDOW)] = WINDOW
) -> Response:
    """The latest rows of a time, in their order."""

    def read() -> str:
        with here.database.reading() as connection:
            return _json(window(connection, name, _kind(connection, name), asked, limit))

    # Written in the thread too: ten thousand rows take a while.
    return Response(await run_in_threadpool(read), media_type="application/json")


@router.get("/streams/{name}/rows")
async def rows(
    name: str,
    here: Here,
    asked: Asked,
    before: int | None = None,
    after: int | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Rows that are wanted, the newest first."""

    def read() -> str:
        with here.database.reading() as connection:
            kind = _kind(connection, name)
            return _json(found(connection, name, kind, asked, before=before, after=after, limit=limit))

    return Response(await run_in_threadpool(read), media_type="application/json")


@router.get("/streams/{name}/export.{form}")
async def export(name: str, form: Literal["csv", "json"], here: Here, asked: Asked) -> StreamingResponse:
    """Everything that is wanted, as a file; the newest first."""

    def read() -> str:
        with here.database.reading() as connection:
            return _kind(connection, name)

    kind = await run_in_threadpool(read)
    some = all_found(here.database, name, kind, asked)
    text = _csv(kind, some) if form == "csv" else _lines(kind, some)
    headers = {"content-disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(
        text, media_type="text/csv; charset=utf-8" if form == "csv" else "application/json", headers=headers
    )


@router.get("/streams/{name}/pictures/{number}")
async def picture(name: str, number: int, here: Here) -> Response:
    """What was delivered for an admission."""

    kept = await run_in_threadpool(Pictures(here.database).of, name, number)
    if kept is None or kept.media_type not in PICTURES:
        raise Fault(404, "there is no such picture", code="picture")
    headers = {
        "cache-control": "private, max-age=86400, immutable",
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(kept.data, media_type=kept.media_type, headers=headers)


def _kind(connection: Connection, name: str) -> str:
    kind: str | None = connection.execute(
        select(streams.c.kind).where(streams.c.name == name, streams.c.kind.in_(KINDS))
    ).scalar()
    if kind is None:
        raise DecisionError(f"there is no stream {name!r}", code="stream")
    return kind


def _json(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"))


def _exported(row: Row) -> Row:
    from datetime import UTC, datetime

    return {**row, "number": row["n"], "time": datetime.fromtimestamp(row["at"], UTC).isoformat()}


def _csv(kind: str, some: Iterator[Row]) -> Iterator[str]:
    columns = COLUMNS[kind]
    yield ",".join(columns) + "\r\n"
    for row in some:
        into = io.StringIO()
        full = _exported(row)
        csv.writer(into).writerow([_cell(full.get(name)) for name in columns])
        yield into.getvalue()


def _cell(value: Any) -> Any:
    """A value in a table; a text that a spreadsheet would take for a formula is marked as a text."""
    if isinstance(value, dict):
        value = "; ".join(f"{name}: {'' if one is None else one}" for name, one in value.items())
    elif isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def _lines(kind: str, some: Iterator[Row]) -> Iterator[str]:
    """A list in JSON, one row a line."""
    columns = COLUMNS[kind]
    start = "[\n"
    for row in some:
        full = _exported(row)
        yield start + _json({name: full[name] for name in columns if name in full})
        start = ",\n"
    yield "[]\n" if start == "[\n" else "\n]\n"
