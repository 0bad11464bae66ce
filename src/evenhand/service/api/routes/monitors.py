"""Monitors over HTTP: events in, alarms and where everything stands out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from evenhand.errors import DecisionError
from evenhand.monitoring.result import Alarm
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.api.json_bodies import JsonRoute
from evenhand.service.auth.keys import Caller, require_scope
from evenhand.service.monitors import ServedMonitor, alarm_to_dict

router = APIRouter(tags=["monitors"], route_class=JsonRoute)

MAX_EVENTS = 10_000
"""In one request."""

EVENTS_EXAMPLE: dict[str, Any] = {
    "events": [
        {"id": "a-1041", "sex": "female", "decision": 1},
        {"id": "a-1042", "sex": "male", "decision": 0},
    ],
    "batch": "2026-06-30T12:00",
}

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class EventsRequest(BaseModel):
    """Decisions and labels, in their order.

    Attributes:
        events: fields as the monitor's configuration names them.
        batch: a name of its own; sent again under it, the batch changes nothing. Another batch under it is refused.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EVENTS_EXAMPLE]})

    events: Annotated[list[dict[str, Any]], Field(max_length=MAX_EVENTS)]
    batch: Annotated[str | None, Field(min_length=1, max_length=190)] = None


class EventsAnswer(BaseModel):
    """What events brought.

    Attributes:
        decisions: so far, those that say which groups there are not included.
        alarms: new ones, each with its ``text``.
        audits: ids of decisions whose true label is asked for.
        repeated: whether the batch was taken before; the rest is what was answered then.
    """

    decisions: int
    alarms: list[dict[str, Any]]
    audits: list[str]
    repeated: bool


class MonitorSummary(BaseModel):
    """A monitor in a list.

    Attributes:
        name: of the monitor.
        shield: that it watches; null if it takes events.
        decisions, labels, alarms: how many so far.
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
    """Decisions, and labels of earlier ones. All are taken, or none if one cannot be read."""
    monitor = _find_monitor(context, name)
    if monitor.shield is not None:
        raise DecisionError(
            f"the monitor {name!r} watches the shield {monitor.shield!r} by itself",
            code="shield",
            hint="tell labels to the shield",
        )
    made = await run_in_threadpool(monitor.add, payload.events, batch=payload.batch)
    alarms = [alarm_to_dict(Alarm.model_validate(alarm)) for alarm in made.answer["alarms"]]
    if alarms:
        context.monitor_thread.wake()
    return JSONResponse({**made.answer, "alarms": alarms, "repeated": made.repeated})


@router.get("/v1/monitors", response_model=None, responses={200: {"model": MonitorList}})
async def list_monitors(
    context: RequestContext, caller: Annotated[Caller, require_scope("read", filtered=True)]
) -> JSONResponse:
    """All monitors, of those that the key is for."""
    monitors = [monitor for monitor in context.monitors.values() if caller.may_use(monitor.name)]
    return JSONResponse({"monitors": await run_in_threadpool(lambda: [monitor.summary() for monitor in monitors])})


@router.get(
    "/v1/monitors/{name}",
    dependencies=[require_scope("read")],
    response_model=None,
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def get_monitor(name: str, context: RequestContext) -> JSONResponse:
    """Where a monitor stands: every gap with its interval, all alarms, and the history of every measure."""
    monitor = _find_monitor(context, name)
    return JSONResponse(await run_in_threadpool(lambda: monitor.result().plain()))


@router.get("/monitors/{name}", dependencies=[require_scope("read")], include_in_schema=False)
async def get_monitor_page(name: str, context: RequestContext) -> HTMLResponse:
    """The same as a page to read."""
    from evenhand import view

    monitor = _find_monitor(context, name)
    page = await run_in_threadpool(lambda: view.render_page(monitor.result().document(name)))
    return HTMLResponse(page, headers={"content-security-policy": f"script-src {view.SCRIPT_HASH}; {PAGE_POLICY}"})


def _find_monitor(context: ServiceContext, name: str) -> ServedMonitor:
    monitor = context.monitors.get(name)
    if monitor is None:
        names = ", ".join(context.monitors) or "none is kept"
        raise DecisionError(f"there is no monitor {name!r}", code="stream", hint=f"one of: {names}")
    return monitor
