"""Pages of the dashboard, and their data. These routes may change in any version."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, StreamingResponse
from sqlalchemy import Connection, select

from evenhand import __version__
from evenhand.errors import DecisionError
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.api.error_handlers import HttpError
from evenhand.service.api.routes.streams import join_lines
from evenhand.service.auth.access import require_scope
from evenhand.service.auth.keys import ApiKey
from evenhand.service.dashboard.rows import COLUMNS, DashboardRow, RowFilter
from evenhand.service.dashboard.windows import (
    MAX_WINDOW_ROWS,
    STREAM_KINDS,
    StreamStatus,
    latest_rows,
    list_streams,
    parse_positions,
    read_news,
    search_all_rows,
    search_rows,
)
from evenhand.service.store.tables import streams

T = TypeVar("T")

router = APIRouter(include_in_schema=False)


ASSET_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Media types of the assets."""

ROWS_PER_PIECE = 500
"""Number of exported rows per chunk."""


@router.get("/", dependencies=[require_scope("read")])
async def get_dashboard() -> HTMLResponse:
    """The dashboard."""
    return HTMLResponse(read_asset("index.html"))


@router.get("/assets/{name}")
async def get_asset(name: str, if_none_match: Annotated[str, Header()] = "") -> Response:
    """A style sheet, script or icon of the pages."""
    if name not in _asset_names():
        raise HttpError(404, "the file does not exist", code="404")
    tag = f'"{hashlib.sha256(read_asset(name)).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(read_asset(name), media_type=ASSET_TYPES[name.rpartition(".")[2]], headers=headers)


@cache
def _asset_names() -> frozenset[str]:
    assets = (files("evenhand.service.dashboard") / "static").iterdir()
    return frozenset(asset.name for asset in assets if asset.name.rpartition(".")[2] in ASSET_TYPES)


@cache
def read_asset(name: str) -> bytes:
    """Read a file of the pages."""
    return (files("evenhand.service.dashboard") / "static" / name).read_bytes()


data = APIRouter(prefix="/v1/dashboard", dependencies=[require_scope("read")])

PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Media types of pictures that are served. Types that may contain scripts are not served."""


def row_filter(
    since: float | None = None,
    until: float | None = None,
    marked: bool = False,
    text: Annotated[str, Query(max_length=200)] = "",
) -> RowFilter:
    """Build the filter of a request."""
    return RowFilter(since, until, marked, text.strip())


RowFilterQuery = Annotated[RowFilter, Depends(row_filter)]


@data.get("")
async def get_start(context: RequestContext, caller: Annotated[ApiKey, require_scope("read")]) -> dict[str, Any]:
    """All streams, and the permissions of the key."""
    models = {name: guard.models[0] for name, guard in context.guards.items() if guard.makes == "image"}
    return {
        "version": __version__,
        "streams": await _read(context, list_streams),
        "caller": {"name": caller.name, "key": bool(caller.id), "generate": caller.is_allowed("generate")},
        "models": models,
        "monitors": [name for name in context.monitors if caller.may_use(name)],
    }


@data.get("/news")
async def get_news(context: RequestContext, after: Annotated[str, Query(max_length=20_000)] = "") -> Response:
    """New rows of all streams after some entries, such as ``loans=120,studio=8``."""
    positions = parse_positions(after)
    news = await _read(context, lambda connection: _compact_json({"news": read_news(connection, positions)}))
    return Response(news, media_type="application/json")


@data.get("/streams/{name}")
async def get_stream_status(name: str, context: RequestContext, request: Request) -> dict[str, Any]:
    """The current state of a stream."""
    state = request.app.state
    if not hasattr(state, "stream_status"):
        state.stream_status = StreamStatus()
    status: dict[str, Any] = await _read(context, state.stream_status.of, name)
    return status


@data.get("/streams/{name}/window")
async def get_latest_rows(
    name: str,
    context: RequestContext,
    criteria: RowFilterQuery,
    limit: Annotated[int, Query(ge=1, le=MAX_WINDOW_ROWS)] = MAX_WINDOW_ROWS,
) -> Response:
    """The latest rows of a period, oldest first."""

    def read(connection: Connection) -> str:
        _stream_kind(connection, name)
        return _compact_json(latest_rows(connection, name, criteria, limit))

    # The thread also encodes the rows, because ten thousand of them take a while.
    return Response(await _read(context, read), media_type="application/json")


@data.get("/streams/{name}/rows")
async def get_matching_rows(
    name: str,
    context: RequestContext,
    criteria: RowFilterQuery,
    before: int | None = None,
    after: int | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Matching rows, newest first."""

    def read(connection: Connection) -> str:
        kind = _stream_kind(connection, name)
        return _compact_json(search_rows(connection, name, kind, criteria, before=before, after=after, limit=limit))

    return Response(await _read(context, read), media_type="application/json")


@data.get("/streams/{name}/export.{form}")
async def export_rows(
    name: str, form: Literal["csv", "json"], context: RequestContext, criteria: RowFilterQuery
) -> StreamingResponse:
    """All matching rows as a file, newest first."""
    kind = await _read(context, _stream_kind, name)
    rows = map(_export_row, search_all_rows(context.database, name, kind, criteria))
    lines, media_type = (
        (_csv_lines(kind, rows), "text/csv; charset=utf-8")
        if form == "csv"
        else (_json_lines(kind, rows), "application/json")
    )
    headers = {"content-disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(join_lines(lines, ROWS_PER_PIECE), media_type=media_type, headers=headers)


@data.get("/streams/{name}/pictures/{number}")
async def get_delivered_picture(name: str, number: int, context: RequestContext) -> Response:
    """The picture that was delivered for an admission."""
    picture = await run_in_threadpool(context.pictures.find_delivered, name, number)
    if picture is None or picture.media_type not in PICTURE_TYPES:
        raise HttpError(404, "there is no such picture", code="picture")
    headers = {
        "cache-control": "private, max-age=86400, immutable",
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(picture.data, media_type=picture.media_type, headers=headers)


async def _read(context: ServiceContext, work: Callable[..., T], *arguments: Any) -> T:
    """Run work on the store in a thread, within one read transaction."""

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


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _export_row(row: DashboardRow) -> DashboardRow:
    return {**row, "number": row["n"], "time": datetime.fromtimestamp(row["at"], UTC).isoformat()}


def _csv_lines(kind: str, rows: Iterable[DashboardRow]) -> Iterator[str]:
    columns = COLUMNS[kind]
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for cells in chain([columns], ([_csv_cell(row.get(name)) for name in columns] for row in rows)):
        writer.writerow(cells)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _csv_cell(value: Any) -> Any:
    """Convert a value to a cell. Text that a spreadsheet would read as a formula is marked as text."""
    if isinstance(value, dict):
        value = "; ".join(f"{name}: {'' if entry is None else entry}" for name, entry in value.items())
    elif isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def _json_lines(kind: str, rows: Iterable[DashboardRow]) -> Iterator[str]:
    columns = COLUMNS[kind]
    separator = "[\n"
    for row in rows:
        yield separator + _compact_json({name: row[name] for name in columns if name in row})
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


router.include_router(data)
