"""Monitors over HTTP: events, alarms and results."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from evenhand.errors import DecisionError
from evenhand.monitoring.result import Alarm
from evenhand.service.api.context import RequestContext
from evenhand.service.api.json_bodies import JsonRoute
from evenhand.service.auth.access import require_scope
from evenhand.service.auth.keys import ApiKey
from evenhand.service.monitors import alarm_to_dict

router = APIRouter(tags=["monitors"], route_class=JsonRoute)

MAX_EVENTS = 10_000
"""Maximum number of events in one request."""

EVENTS_EXAMPLE: dict[str, Any] = {
    "events": [
        {"id": "a-1041", "sex": "female", "decision": 1},
        {"id": "a-1042", "sex": "male", "decision": 0},
    ],
    "batch": "2026-06-30T12:00",
}

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class EventsRequest(BaseModel):
    """Decisions and labels, in order.

    Attributes:
        events: Events with the fields of the monitor's configuration.
        batch: Unique name of the batch. A repeated batch changes nothing; another batch with this name is refused.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EVENTS_EXAMPLE]})

    events: Annotated[list[dict[str, Any]], Field(max_length=MAX_EVENTS)]
    batch: Annotated[str | None, Field(min_length=1, max_length=190)] = None


class EventsAnswer(BaseModel):
    """Result of a batch of events.

    Attributes:
        decisions: Total number of decisions, excluding those that define the groups.
        alarms: New alarms with their ``text``.
        audits: IDs of decisions whose true label is requested.
        repeated: Whether this is the result of an earlier request with the same batch.
    """

    decisions: int
    alarms: list[dict[str, Any]]
    audits: list[str]
    repeated: bool


class MonitorSummary(BaseModel):
    """Summary of a monitor.

    Attributes:
        name: Name of the monitor.
        shield: Monitored shield. Null if events are posted.
        decisions, labels, alarms: Total numbers.
    """

    name: str
    shield: str | None
    decisions: int
    labels: int
    alarms: int


class MonitorList(BaseModel):
    """All monitors."""

    monitors: list[MonitorSummary]


@router.post(
    "/v1/monitors/{name}/events",
    dependencies=[require_scope("decide")],
    response_model=None,
    responses={200: {"model": EventsAnswer}},
)
async def add_events(name: str, payload: EventsRequest, context: RequestContext) -> JSONResponse:
    """Decisions and labels. Either all events are applied or, if one is invalid, none."""
    monitor = context.monitors[name]
    if monitor.shield is not None:
        raise DecisionError(
            f"the monitor {name!r} reads the decisions of the shield {monitor.shield!r}",
            code="shield",
            hint="send labels to the shield",
        )
    result = await run_in_threadpool(monitor.add, payload.events, batch=payload.batch)
    alarms = [alarm_to_dict(Alarm.model_validate(alarm)) for alarm in result.answer["alarms"]]
    if alarms:
        context.monitor_thread.wake()
    return JSONResponse({**result.answer, "alarms": alarms, "repeated": result.repeated})


@router.get("/v1/monitors", response_model=None, responses={200: {"model": MonitorList}})
async def list_monitors(
    context: RequestContext, caller: Annotated[ApiKey, require_scope("read", filtered=True)]
) -> JSONResponse:
    """All monitors that the key may use."""
    monitors = [monitor for monitor in context.monitors.values() if caller.may_use(monitor.name)]
    return JSONResponse({"monitors": await run_in_threadpool(lambda: [monitor.summary() for monitor in monitors])})


@router.get(
    "/v1/monitors/{name}",
    dependencies=[require_scope("read")],
    response_model=None,
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def get_monitor(name: str, context: RequestContext) -> JSONResponse:
    """The result of a monitor: gaps with intervals, alarms, and the history of every measure."""
    monitor = context.monitors[name]
    return JSONResponse(await run_in_threadpool(lambda: monitor.result().plain()))


@router.get("/monitors/{name}", dependencies=[require_scope("read")], include_in_schema=False)
async def get_monitor_page(name: str, context: RequestContext) -> HTMLResponse:
    """The result of a monitor as a page."""
    from evenhand import view

    monitor = context.monitors[name]
    page = await run_in_threadpool(lambda: view.render_page(monitor.result().document(name)))
    return HTMLResponse(page, headers={"content-security-policy": f"script-src {view.SCRIPT_HASH}; {PAGE_POLICY}"})
