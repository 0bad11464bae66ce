"""What happens, as it happens: server-sent events for the dashboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse

from evenhand.service.context import Context, context_of
from evenhand.service.dashboard.hub import Hub, positions_in
from evenhand.service.security import requires

router = APIRouter(include_in_schema=False)


@router.get("/v1/events", dependencies=[requires("read")])
async def events(
    request: Request,
    here: Annotated[Context, Depends(context_of)],
    after: Annotated[str, Query(max_length=20_000)] = "",
    last_event_id: Annotated[str, Header(max_length=20_000)] = "",
) -> StreamingResponse:
    """New rows of every stream, from ``after`` on, or from what the browser heard last."""
    told = hub_of(request, here).events(positions_in(last_event_id or after))
    # A refusal must come before the answer begins.
    first = await anext(told)

    async def all_of_it() -> AsyncIterator[str]:
        try:
            yield first
            async for text in told:
                yield text
        finally:
            await told.aclose()

    # Proxies that collect an answer before they hand it on must not.
    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(all_of_it(), media_type="text/event-stream", headers=headers)


def hub_of(request: Request, here: Context) -> Hub:
    """The one hub of a process."""
    state = request.app.state
    if not hasattr(state, "hub"):
        state.hub = Hub(here)
    hub: Hub = state.hub
    return hub
