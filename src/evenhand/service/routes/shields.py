"""Decisions of shields over HTTP, labels, and where the shields stand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from evenhand.errors import DecisionError, EvenhandError
from evenhand.service import faults
from evenhand.service.context import Context, context_of
from evenhand.service.deciding import Decided
from evenhand.service.routes.direct import Direct
from evenhand.service.routes.shield_bodies import (
    MOST,
    BatchAnswer,
    BatchRequest,
    DecisionAnswer,
    DecisionRequest,
    LabelAnswer,
    LabelRequest,
    LogPage,
    Shields,
    ShieldState,
)
from evenhand.service.security import requires
from evenhand.service.shields import ServedShield
from evenhand.service.store.reading import entries_after, standing_of
from evenhand.shield import Reason

router = APIRouter(prefix="/v1/shields", tags=["shields"])

Here = Annotated[Context, Depends(context_of)]

UNGUARDED = "The recommendation passed: the store could not be used, so the shield has not seen it."
"""An explanation."""


async def decide(name: str, asked: DecisionRequest, here: Here) -> JSONResponse:
    """Decide on one individual. Asked again with the same id, the answer is the same and nothing is decided."""
    shield = _shield(here, name)
    made = await here.deciders[name].decide(_operation(asked))
    return JSONResponse(_decided(shield, asked.id, made), headers=_said(shield, made.guarded, made.repeated))


async def decide_all(name: str, asked: BatchRequest, here: Here) -> JSONResponse:
    """Decide on several individuals, in their order. One that cannot be decided on has an error in its place."""
    shield = _shield(here, name)
    under_way = [here.deciders[name].decide(_operation(one)) for one in asked.decisions]
    results: list[dict[str, Any]] = []
    found = await asyncio.gather(*under_way, return_exceptions=True)
    guarded = True
    for one, made in zip(asked.decisions, found, strict=True):
        if isinstance(made, EvenhandError):
            results.append({"id": one.id, **faults.described(made)})
        elif isinstance(made, BaseException):
            raise made
        else:
            guarded = guarded and made.guarded
            results.append({**_decided(shield, one.id, made), "repeated": made.repeated})
    return JSONResponse({"results": results}, headers=_said(shield, guarded))


@router.post(
    "/{name}/labels",
    dependencies=[requires("decide")],
    response_model=None,
    responses={200: {"model": LabelAnswer}},
)
async def label(name: str, asked: LabelRequest, here: Here) -> JSONResponse:
    """The truth about an individual that was decided on. The same label again changes nothing."""
    shield = _shield(here, name)
    # No id of a decision has a tab in it.
    operation = {"op": "label", "id": asked.id, "label": asked.label}
    try:
        done = await asyncio.wrap_future(here.ledger.submit(name, operation, id=f"{asked.id}\tlabel"))
    except DecisionError as error:
        if error.code != "repeated":
            raise
        raise DecisionError(
            f"the label of {asked.id!r} is known, and it is the other one",
            code="contradiction",
            mend="a label is given once and stays",
        ) from None
    certificate = done.answer["certificate"]
    answer = {"id": asked.id, "bias": certificate["bias"], "certificate": certificate, "number": done.number}
    return JSONResponse(answer, headers=_said(shield, True, done.repeated))


for path, endpoint, model in (
    ("/{name}/decisions", decide, DecisionAnswer),
    ("/{name}/decisions/batch", decide_all, BatchAnswer),
):
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        dependencies=[requires("decide")],
        response_model=None,
        responses={200: {"model": model}},
        route_class_override=Direct,
    )


@router.get("", dependencies=[requires("read")], response_model=None, responses={200: {"model": Shields}})
async def shields(here: Here) -> JSONResponse:
    """All shields that are served, and where they stand."""
    found = await run_in_threadpool(_all, here, tuple(here.shields.values()))
    return JSONResponse({"shields": found})


@router.get("/{name}", dependencies=[requires("read")], response_model=None, responses={200: {"model": ShieldState}})
async def shield(name: str, here: Here) -> JSONResponse:
    """Where a shield stands: its bias, the bound that is guaranteed, its certificate and counters."""
    (found,) = await run_in_threadpool(_all, here, (_shield(here, name),), counters=True)
    return JSONResponse(found)


@router.get("/{name}/log", dependencies=[requires("read")], response_model=None, responses={200: {"model": LogPage}})
async def log(
    name: str,
    here: Here,
    after: Annotated[int, Query(ge=-1, lt=2**62, description="The number of the entry before the first one.")] = -1,
    limit: Annotated[int, Query(ge=1, le=MOST, description="So many entries at most.")] = 100,
) -> JSONResponse:
    """A page of the log: decisions and labels, oldest first."""
    _shield(here, name)

    def page() -> list[dict[str, Any]]:
        with here.database.reading() as connection:
            return entries_after(connection, name, after, limit)

    found = await run_in_threadpool(page)
    return JSONResponse({"entries": found, "next": found[-1]["number"] if len(found) == limit else None})


def _shield(here: Context, name: str) -> ServedShield:
    found = here.shields.get(name)
    if found is None:
        names = ", ".join(here.shields) or "none is served"
        raise DecisionError(f"there is no shield {name!r}", code="stream", mend=f"one of: {names}")
    return found


def _operation(asked: DecisionRequest) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "op": "decide",
        "id": asked.id,
        "group": asked.group,
        "recommendation": asked.recommendation,
    }
    if asked.cost is not None:
        operation["cost"] = asked.cost
    return operation


def _decided(shield: ServedShield, given: str, made: Decided) -> dict[str, Any]:
    answer = made.answer
    certificate, reason = answer["certificate"], answer["reason"]
    return {
        "id": given,
        **answer,
        "guarded": made.guarded and not shield.advisory,
        "explanation": Reason(reason).words if made.guarded else UNGUARDED,
        "bias": None if certificate is None else certificate["bias"],
        "number": made.number,
    }


def _said(shield: ServedShield, guarded: bool, repeated: bool | None = None) -> dict[str, str]:
    """Headers: whether the shield was in force, and whether this was asked before."""
    said = {"x-evenhand-guarded": "true" if guarded and not shield.advisory else "false"}
    return said if repeated is None else {**said, "x-evenhand-repeated": str(repeated).lower()}


def _all(here: Context, wanted: tuple[ServedShield, ...], *, counters: bool = False) -> list[dict[str, Any]]:
    """Where some shields stand, all of them at one moment."""
    found = []
    with here.database.reading() as connection:
        for one in wanted:
            number, last, state = standing_of(connection, one.name)
            found.append({**one.to_dict(), "number": number, "hash": last, **_standing(state, counters=counters)})
    return found


def _standing(state: Mapping[str, Any], *, counters: bool) -> dict[str, Any]:
    certificate, inner = state["certificate"], state["shield"]
    said = {
        "bias": certificate["bias"],
        "bound": certificate["bound"],
        "interventions": inner["interventions"],
        "cost": inner["cost"],
        "certificate": certificate,
    }
    return {**said, "counters": inner["course"]} if counters else said
