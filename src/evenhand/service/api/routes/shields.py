"""Shields over HTTP: decisions, labels and states."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core.core_schema import (
    CoreSchema,
    chain_schema,
    custom_error_schema,
    int_schema,
    no_info_after_validator_function,
    str_schema,
    union_schema,
)
from sqlalchemy import select
from starlette.types import Receive, Scope, Send

from evenhand.errors import DecisionError, EvenhandError
from evenhand.service.api import error_handlers
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.api.error_handlers import ErrorAnswer, HttpError
from evenhand.service.api.json_bodies import JSON_TYPE, JsonRoute, parse_json_body
from evenhand.service.auth.access import require_scope
from evenhand.service.auth.keys import ApiKey
from evenhand.service.shields import ServedShield
from evenhand.service.store.tables import streams
from evenhand.shields.runtime.shield import DecisionReason

MAX_BATCH = 1_000
"""Maximum number of decisions in a batch."""


MAX_FAULTS = 10_000
"""Maximum number of validation errors of which the first is described."""

MAX_ID_LENGTH = 190
"""Maximum length of an ID."""

ID_PATTERN = (
    "^[^\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]+$"
)
"""Pattern of IDs. Control characters separate IDs of labels from those of decisions. Invisible characters and changes
of direction could make different IDs look equal."""


def _id_schema(_source: Any, _build: Any) -> CoreSchema:
    """Build the schema of an ID, with one error for texts and numbers."""
    either = union_schema([str_schema(min_length=1, max_length=MAX_ID_LENGTH), int_schema(strict=True)])
    text = no_info_after_validator_function(str, either)
    visible = str_schema(max_length=MAX_ID_LENGTH, pattern=ID_PATTERN)
    message = f"expected a whole number, or a text of 1 to {MAX_ID_LENGTH} visible characters"
    return custom_error_schema(chain_schema([text, visible]), custom_error_type="id", custom_error_message=message)


Id: TypeAlias = Annotated[str, GetPydanticSchema(_id_schema)]
"""ID of a decision. A whole number is the same ID as its digits."""

Bit: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=1)]


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class DecisionRequest(_RequestBody):
    """One individual."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "application 1", "group": "women", "recommendation": 0}]}
    )

    id: Annotated[Id, Field(description="Unique ID. A repeated request gets the same answer.")]
    group: Annotated[str, Field(max_length=200, description="Name of the group.")]
    recommendation: Annotated[Bit, Field(description="Recommendation of the model: 1 to accept, 0 to reject.")]
    cost: Annotated[
        float | None,
        Field(ge=0, strict=True, description="Cost of an override; required if the plan has several costs."),
    ] = None


class BatchRequest(_RequestBody):
    """Several individuals, in decision order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "decisions": [
                        {"id": 1, "group": "women", "recommendation": 0},
                        {"id": 2, "group": "men", "recommendation": 1},
                    ]
                }
            ]
        }
    )

    decisions: Annotated[list[DecisionRequest], Field(min_length=1, max_length=MAX_BATCH)]


class LabelRequest(_RequestBody):
    """True label of a decided individual."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "application 1", "label": 1}]})

    id: Annotated[Id, Field(description="ID of the decision.")]
    label: Annotated[Bit, Field(description="1 if acceptance would have been correct.")]


class CertificateBody(BaseModel):
    """Guarantee for the future, and its assumption."""

    kind: Literal["shield-certificate"]
    property: str
    kappa: str
    step: int
    horizon: int
    period: int
    bias: float
    bias_shielded: float
    bias_unshielded: float
    open_labels: int
    expired_labels: Annotated[
        int,
        Field(description="Decisions whose label did not arrive within the configured wait; not counted. Absent if 0."),
    ] = 0
    bound: Annotated[
        float | None, Field(description="Bound on the bias at the end of this period. Null: no guarantee.")
    ]
    bound_exact: str | None
    attained: Annotated[bool, Field(description="Whether the bias can reach the bound.")]
    bound_later: Annotated[
        float | None, Field(description="Bound on the bias at the end of every later period; null: no guarantee.")
    ]
    how: Annotated[str, Field(description="Reason for the bound, or for its absence.")]
    how_later: Annotated[
        str | None, Field(description="Reason for the later bound, or for its absence; null: there is no later period.")
    ] = None
    advisory: bool
    assumption: str | None
    assumption_held: bool | None


class DecisionAnswer(BaseModel):
    """Decision."""

    id: str
    decision: Bit
    intervened: bool
    reason: Literal["followed", "accepted", "rejected", "would-accept", "would-reject"]
    explanation: str
    guarded: Annotated[bool, Field(description="Whether the shield decides; false in advisory mode.")]
    guaranteed: Annotated[
        bool, Field(description="Whether the period, counted with all earlier ones, is guaranteed to end fair.")
    ]
    bias: Annotated[float, Field(description="Current bias.")]
    certificate: CertificateBody
    number: Annotated[int, Field(description="Number of the entry in the log.")]


class BatchDecision(DecisionAnswer):
    """A decision of a batch."""

    repeated: bool


class BatchError(ErrorAnswer):
    """Error for one individual of a batch."""

    id: str


class BatchAnswer(BaseModel):
    """One result per individual, in the same order."""

    results: list[BatchDecision | BatchError]


class LabelAnswer(BaseModel):
    """Guarantee with the label."""

    id: str
    bias: float
    certificate: CertificateBody
    number: int


class ShieldSummary(BaseModel):
    """Shield and its state."""

    name: str
    kind: str
    property: str
    kappa: str
    horizon: int
    groups: list[str]
    largest_cost: float
    cost_needed: bool
    labels: Annotated[bool, Field(description="Whether decisions receive labels later.")]
    advisory: bool
    digest: Annotated[str, Field(description="Digest of the policy.")]
    number: Annotated[int, Field(description="Number of the last entry in the log.")]
    hash: Annotated[str, Field(description="Hash of that entry.")]
    bias: float
    bound: float | None
    interventions: int
    cost: Annotated[float, Field(description="Total cost of all overrides.")]
    certificate: CertificateBody


class ShieldDetails(ShieldSummary):
    """Shield with all of its counters."""

    counters: dict[str, Any]


class ShieldList(BaseModel):
    """All shields that are served."""

    shields: list[ShieldSummary]


router = APIRouter(prefix="/v1/shields", tags=["shields"], route_class=JsonRoute)

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class DirectRoute(JsonRoute):
    """Route that bypasses FastAPI for valid requests, because it is used thousands of times a second.

    Its endpoint receives ``name`` from the path, ``payload`` (the body) and ``context``, and returns the JSON answer.
    Headers state whether the shield decides and whether the request was repeated. Invalid requests are passed to
    FastAPI, which returns the error.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._payload: TypeAdapter[Any] = TypeAdapter(get_type_hints(endpoint, include_extras=True)["payload"])
        (dependency,) = self.dependencies
        self._required_scope: Any = dependency.dependency

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        if scope["method"] == "POST":
            await self._required_scope(request)
            if JSON_TYPE.match(request.headers.get("content-type", "")):
                try:
                    payload = self._payload.validate_python(parse_json_body(scope["evenhand.body"]))
                except ValidationError as error:
                    # Describing a hundred thousand faults would delay all other requests by seconds.
                    if error.error_count() > MAX_FAULTS:
                        hint = "see /openapi.json"
                        raise HttpError(422, "the request has too many faults", code="request", hint=hint) from None
                else:
                    name, context = request.path_params["name"], request.app.state.context
                    headers = {"x-evenhand-guarded": "false" if context.shields[name].entry.advisory else "true"}
                    answer = await self.endpoint(name, payload, context)
                    if (repeated := answer.pop("repeated", None)) is not None:
                        headers["x-evenhand-repeated"] = "true" if repeated else "false"
                    response = Response(_ENCODER.encode(answer), media_type="application/json", headers=headers)
                    await response(scope, receive, send)
                    return
        await super().handle(scope, receive, send)


async def decide_individual(name: str, payload: DecisionRequest, context: RequestContext) -> dict[str, Any]:
    """Decide on one individual. A repeated request with the same ID receives the same answer."""
    shield, tracing = context.shields[name], context.ledger.tracing
    operation = {
        "op": "decide",
        "id": payload.id,
        "group": payload.group,
        "recommendation": payload.recommendation,
        **({} if payload.cost is None else {"cost": payload.cost}),
    }
    with nullcontext() if tracing is None else tracing.span("evenhand.decide", stream=name) as span:
        result = await context.ledger.ask(name, operation, id=payload.id)
        answer = result.answer
        if span is not None:
            intervened = bool(answer["intervened"])
            span.set_attributes({"evenhand.intervened": intervened, "evenhand.repeated": result.repeated})
    return {
        "id": payload.id,
        **answer,
        "guarded": not shield.entry.advisory,
        "explanation": DecisionReason(answer["reason"]).words,
        "bias": answer["certificate"]["bias"],
        "number": result.number,
        "repeated": result.repeated,
    }


async def decide_batch(name: str, payload: BatchRequest, context: RequestContext) -> dict[str, Any]:
    """Decide on several individuals in order. Each result is a decision or an error."""
    decisions = [decide_individual(name, decision, context) for decision in payload.decisions]
    answers: list[dict[str, Any]] = []
    results = await asyncio.gather(*decisions, return_exceptions=True)
    for decision, result in zip(payload.decisions, results, strict=True):
        if isinstance(result, EvenhandError):
            answers.append({"id": decision.id, **error_handlers.describe_error(result)})
        elif isinstance(result, BaseException):
            raise result
        else:
            answers.append(result)
    return {"results": answers}


async def record_label(name: str, payload: LabelRequest, context: RequestContext) -> dict[str, Any]:
    """The true label of a decided individual. A repeated label changes nothing."""
    # IDs of decisions contain no tabs.
    operation = {"op": "label", "id": payload.id, "label": payload.label}
    try:
        result = await context.ledger.ask(name, operation, id=f"{payload.id}\tlabel")
    except DecisionError as error:
        if error.code != "repeated":
            raise
        raise DecisionError(
            f"{payload.id!r} already has the opposite label",
            code="contradiction",
            hint="labels cannot be changed",
        ) from None
    certificate = result.answer["certificate"]
    return {
        "id": payload.id,
        "bias": certificate["bias"],
        "certificate": certificate,
        "number": result.number,
        "repeated": result.repeated,
    }


def add_decision_routes(app: FastAPI) -> None:
    """Add the direct routes to the application itself, because a nested router costs a second lookup."""
    for path, endpoint, model in (
        ("/v1/shields/{name}/decisions", decide_individual, DecisionAnswer),
        ("/v1/shields/{name}/decisions/batch", decide_batch, BatchAnswer),
        ("/v1/shields/{name}/labels", record_label, LabelAnswer),
    ):
        app.router.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            tags=["shields"],
            dependencies=[require_scope("decide")],
            response_model=None,
            responses={200: {"model": model}},
            route_class_override=DirectRoute,
        )


@router.get("", response_model=None, responses={200: {"model": ShieldList}})
async def list_shields(
    context: RequestContext, caller: Annotated[ApiKey, require_scope("read", filtered=True)]
) -> JSONResponse:
    """All shields that the key may use, and their states."""
    visible = tuple(shield for shield in context.shields.values() if caller.may_use(shield.entry.name))
    summaries = await run_in_threadpool(_summarize_shields, context, visible)
    return JSONResponse({"shields": summaries})


@router.get(
    "/{name}", dependencies=[require_scope("read")], response_model=None, responses={200: {"model": ShieldDetails}}
)
async def get_shield(name: str, context: RequestContext) -> JSONResponse:
    """The state of a shield: bias, guaranteed bound, certificate and counters."""
    shield = context.shields[name]
    (summary,) = await run_in_threadpool(_summarize_shields, context, (shield,), counters=True)
    return JSONResponse(summary)


def _summarize_shields(
    context: ServiceContext, shields: tuple[ServedShield, ...], *, counters: bool = False
) -> list[dict[str, Any]]:
    """Summarise shields in one snapshot."""
    summaries = []
    with context.database.reading() as connection:
        for shield in shields:
            row = connection.execute(select(streams).where(streams.c.name == shield.entry.name)).one()
            columns = _state_columns(json.loads(row.state), counters=counters)
            summaries.append({**shield.to_dict(), "number": row.number, "hash": row.hash, **columns})
    return summaries


def _state_columns(state: Mapping[str, Any], *, counters: bool) -> dict[str, Any]:
    certificate, inner = state["certificate"], state["shield"]
    columns = {
        "bias": certificate["bias"],
        "bound": certificate["bound"],
        "interventions": inner["interventions"],
        "cost": inner["cost"],
        "certificate": certificate,
    }
    return {**columns, "counters": inner["course"]} if counters else columns
