"""Export of complete logs and their heads, which can later prove that a log was not truncated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice, takewhile
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from evenhand.errors import DecisionError
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.auth.access import require_scope
from evenhand.service.auth.keys import ApiKey
from evenhand.service.store.database import read_heads, read_log

router = APIRouter(prefix="/v1/streams", tags=["log"])

LINES_PER_PIECE = 200
"""Number of entries per chunk."""

MEDIA_TYPE = "application/x-ndjson"


class LogHead(BaseModel):
    """Name of a stream, and number and hash of its last entry."""

    name: str
    number: int
    hash: str


class LogHeads(BaseModel):
    """The last entries of all logs in one snapshot."""

    streams: list[LogHead]


@router.get("")
async def list_log_heads(
    context: RequestContext, caller: Annotated[ApiKey, require_scope("read", filtered=True)]
) -> LogHeads:
    """The number and hash of the last entry of each stream. Keep them to detect later whether a log was truncated."""
    return LogHeads(
        streams=[
            LogHead(name=name, number=number, hash=last_hash)
            for name, (number, last_hash) in (await run_in_threadpool(_read_log_heads, context)).items()
            if caller.may_use(name)
        ]
    )


@router.get(
    "/{name}/log",
    dependencies=[require_scope("read")],
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "One entry per line."}},
)
async def get_stream_log(
    name: str,
    context: RequestContext,
    after: Annotated[int, Query(ge=-1, lt=2**62, description="The number of the entry before the first one.")] = -1,
    limit: Annotated[int | None, Query(ge=1, lt=2**62, description="Maximum number of entries.")] = None,
) -> StreamingResponse:
    """The log of a stream as JSON lines, oldest first, up to its current end: see `evenhand replay`."""
    log_head = (await run_in_threadpool(_read_log_heads, context)).get(name)
    if log_head is None:
        raise DecisionError(f"there is no stream {name!r}", code="stream", hint="see /v1/streams")
    last_number, head = log_head
    lines = _read_log_lines(context, name, after, last_number, limit)
    # This runs before the response starts, so that a failing store causes an error response.
    first_part = await run_in_threadpool(next, lines, "")
    return StreamingResponse(
        chain((first_part,), lines), media_type=MEDIA_TYPE, headers={"x-evenhand-head": f"{last_number} {head}"}
    )


def _read_log_heads(context: ServiceContext) -> dict[str, tuple[int, str]]:
    with context.database.reading() as connection:
        return read_heads(connection)


def _read_log_lines(
    context: ServiceContext, name: str, after: int, last_number: int, limit: int | None
) -> Iterator[str]:
    """Yield the entries of a range as lines, several at a time."""
    log = read_log(context.database, name, after=after, page=LINES_PER_PIECE)
    selected = islice(takewhile(lambda entry: entry["number"] <= last_number, log), limit)
    return join_lines((json.dumps(entry, separators=(",", ":")) + "\n" for entry in selected), LINES_PER_PIECE)


def join_lines(lines: Iterator[str], number: int) -> Iterator[str]:
    """Join several lines into one part, because each part of a response costs a call in another thread."""
    while part := "".join(islice(lines, number)):
        yield part
