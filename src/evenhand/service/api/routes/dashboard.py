"""The dashboard: its pages, what they ask for, and what happens as it happens.

None of this is part of the interface that is promised.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, StreamingResponse
from sqlalchemy import Connection, select

from evenhand import __version__
from evenhand.errors import DecisionError
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.api.error_handlers import EVENT_STREAM_HEADERS, HttpError
from evenhand.service.auth.keys import Caller, require_scope
from evenhand.service.dashboard.hub import EventHub, parse_positions
from evenhand.service.dashboard.rows import COLUMNS, DashboardRow, RowFilter
from evenhand.service.dashboard.windows import (
    MAX_WINDOW_ROWS,
    STREAM_KINDS,
    StreamStatus,
    latest_rows,
    list_streams,
    search_all_rows,
    search_rows,
)
from evenhand.service.store.tables import streams

T = TypeVar("T")

router = APIRouter(include_in_schema=False)


# Pages.

ASSET_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Media types of the assets."""

ROWS_PER_PIECE = 500
"""Number of exported rows that are sent at once."""


@router.get("/", dependencies=[require_scope("read")])
async def get_dashboard() -> HTMLResponse:
    """The dashboard."""
    return page_response(read_asset("index.html").decode())


@router.get("/assets/{name}")
async def get_asset(name: str, if_none_match: Annotated[str, Header()] = "") -> Response:
    """A style, a script or a drawing of the pages."""
    if name not in _asset_names():
        raise HttpError(404, "there is no such file", code="404")
    tag = f'"{hashlib.sha256(read_asset(name)).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(read_asset(name), media_type=ASSET_TYPES[name.rpartition(".")[2]], headers=headers)


def page_response(text: str, status: int = 200) -> HTMLResponse:
    """Return a page as an answer."""
    return HTMLResponse(text, status)


@cache
def _asset_names() -> frozenset[str]:
    assets = (files("evenhand.service.dashboard") / "static").iterdir()
    return frozenset(asset.name for asset in assets if asset.name.rpartition(".")[2] in ASSET_TYPES)


@cache
def read_asset(name: str) -> bytes:
    """Return a file of the pages."""
    return (files("evenhand.service.dashboard") / "static" / name).read_bytes()


# What the pages ask for.

data = APIRouter(prefix="/v1/dashboard", dependencies=[require_scope("read")])

PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Media types of pictures that are served. Types that may contain scripts are not."""


def row_filter(
    since: float | None = None,
    until: float | None = None,
    marked: bool = False,
    text: Annotated[str, Query(max_length=200)] = "",
) -> RowFilter:
    """Return the rows that a request wants."""
    return RowFilter(since, until, marked, text.strip())


RowFilterQuery = Annotated[RowFilter, Depends(row_filter)]


@data.get("")
async def get_start(context: RequestContext, caller: Annotated[Caller, require_scope("read")]) -> dict[str, Any]:
    """Every stream, and what the holder of the key may do."""

    models = {name: guard.models[0] for name, guard in context.guards.items() if guard.makes == "image"}
    return {
        "version": __version__,
        "streams": await _read(context, list_streams),
        "caller": {"name": caller.name, "key": bool(caller.key), "generate": caller.is_allowed("generate")},
        "models": models,
        "monitors": [name for name in context.monitors if caller.may_use(name)],
    }


@data.get("/streams/{name}")
async def get_stream_status(name: str, context: RequestContext, request: Request) -> dict[str, Any]:
    """Where a stream stands."""
    state = request.app.state
    if not hasattr(state, "standing"):
        state.standing = StreamStatus()

    status: dict[str, Any] = await _read(context, state.standing.of, name)
    return status


@data.get("/streams/{name}/window")
async def get_latest_rows(
    name: str,
    context: RequestContext,
    wanted: RowFilterQuery,
    limit: Annotated[int, Query(ge=1, le=MAX_WINDOW_ROWS)] = MAX_WINDOW_ROWS,
) -> Response:
    """The latest rows of a time, in their order."""

    def read(connection: Connection) -> str:
        _stream_kind(connection, name)
        return _compact_json(latest_rows(connection, name, wanted, limit))

    # Encoding ten thousand rows takes a while, so the thread does that, too.
    return Response(await _read(context, read), media_type="application/json")


@data.get("/streams/{name}/rows")
async def get_matching_rows(
    name: str,
    context: RequestContext,
    wanted: RowFilterQuery,
    before: int | None = None,
    after: int | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Rows that are wanted, the newest first."""

    def read(connection: Connection) -> str:
        kind = _stream_kind(connection, name)
        return _compact_json(search_rows(connection, name, kind, wanted, before=before, after=after, limit=limit))

    return Response(await _read(context, read), media_type="application/json")


@data.get("/streams/{name}/export.{form}")
async def export_rows(
    name: str, form: Literal["csv", "json"], context: RequestContext, wanted: RowFilterQuery
) -> StreamingResponse:
    """Everything that is wanted, as a file; the newest first."""

    kind = await _read(context, _stream_kind, name)
    some = search_all_rows(context.database, name, kind, wanted)
    text = _csv_lines(kind, some) if form == "csv" else _json_lines(kind, some)
    headers = {"content-disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(
        text, media_type="text/csv; charset=utf-8" if form == "csv" else "application/json", headers=headers
    )


@data.get("/streams/{name}/pictures/{number}")
async def get_delivered_picture(name: str, number: int, context: RequestContext) -> Response:
    """What was delivered for an admission."""

    kept = await run_in_threadpool(context.pictures.find_delivered, name, number)
    if kept is None or kept.media_type not in PICTURE_TYPES:
        raise HttpError(404, "there is no such picture", code="picture")
    headers = {
        "cache-control": "private, max-age=86400, immutable",
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(kept.data, media_type=kept.media_type, headers=headers)


async def _read(context: ServiceContext, work: Callable[..., T], *arguments: Any) -> T:
    """Run work on the store in a thread, in one read transaction."""

    def run() -> T:
        with context.database.reading() as connection:
            return work(connection, *arguments)

    return await run_in_threadpool(run)


def _stream_kind(connection: Connection, name: str) -> str:
    kind: str | None = connection.execute(
        select(streams.c.kind).where(streams.c.name == name, streams.c.kind.in_(STREAM_KINDS))
    ).scalar()
    if kind is None:
        raise DecisionError(f"there is no stream {name!r}", code="stream")
    return kind


def _compact_json(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"))


def _export_row(row: DashboardRow) -> DashboardRow:
    from datetime import UTC, datetime

    return {**row, "number": row["n"], "time": datetime.fromtimestamp(row["at"], UTC).isoformat()}


def _csv_lines(kind: str, some: Iterator[DashboardRow]) -> Iterator[str]:
    """Yield a table with its heading, many rows at a time: each piece is a turn of another thread."""
    columns = COLUMNS[kind]
    into = io.StringIO()
    table = csv.writer(into)
    table.writerow(columns)
    while True:
        rows = list(islice(some, ROWS_PER_PIECE))
        table.writerows([_csv_cell(full.get(name)) for name in columns] for full in map(_export_row, rows))
        yield into.getvalue()
        if len(rows) < ROWS_PER_PIECE:
            return
        into.seek(0)
        into.truncate()


def _csv_cell(value: Any) -> Any:
    """Return a value in a table; a text that a spreadsheet would take for a formula is marked as a text."""
    if isinstance(value, dict):
        value = "; ".join(f"{name}: {'' if entry is None else entry}" for name, entry in value.items())
    elif isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def _json_lines(kind: str, some: Iterator[DashboardRow]) -> Iterator[str]:
    """Yield a list in JSON, one row a line, many rows at a time."""
    columns = COLUMNS[kind]
    full = map(_export_row, some)
    lines = (_compact_json({name: row[name] for name in columns if name in row}) for row in full)
    start = "[\n"
    while piece := list(islice(lines, ROWS_PER_PIECE)):
        yield start + ",\n".join(piece)
        start = ",\n"
    yield "[]\n" if start == "[\n" else "\n]\n"


router.include_router(data)


# What happens, as it happens: server-sent events.


@router.get("/v1/events", dependencies=[require_scope("read")])
async def stream_events(
    request: Request,
    context: RequestContext,
    after: Annotated[str, Query(max_length=20_000)] = "",
    last_event_id: Annotated[str, Header(max_length=20_000)] = "",
) -> StreamingResponse:
    """New rows of every stream, from ``after`` on, or from what the browser heard last."""
    told = get_hub(request, context).events(parse_positions(last_event_id or after))
    # A refusal must come before the answer begins.
    first = await anext(told)

    async def all_of_it() -> AsyncIterator[str]:
        try:
            yield first
            async for text in told:
                yield text
        finally:
            await told.aclose()

    return StreamingResponse(all_of_it(), media_type="text/event-stream", headers=EVENT_STREAM_HEADERS)


def get_hub(request: Request, context: ServiceContext) -> EventHub:
    """Return the one hub of a process."""
    state = request.app.state
    if not hasattr(state, "hub"):
        state.hub = EventHub(context)
    hub: EventHub = state.hub
    return hub
