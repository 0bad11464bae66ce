"""The models that clients can ask for."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from evenhand.service.context import Context, context_of
from evenhand.service.faults import Fault
from evenhand.service.routes import examples
from evenhand.service.routes.examples import shown
from evenhand.service.security import requires

router = APIRouter(prefix="/v1", tags=["generators"], dependencies=[requires("generate")])

Here = Annotated[Context, Depends(context_of)]


@router.get("/models", responses=shown(examples.MODELS))
async def models(here: Here) -> dict[str, Any]:
    """Every guarded generator, under every name that it has."""
    return {"object": "list", "data": _models(here)}


@router.get("/models/{name:path}", responses=shown(examples.MODEL))
async def model(name: str, here: Here) -> dict[str, Any]:
    """One of them."""
    for one in _models(here):
        if one["id"] == name:
            return one
    raise Fault(404, f"there is no model {name[:100]!r}", code="model_not_found", mend="see /v1/models")


def _models(here: Context) -> list[dict[str, Any]]:
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "evenhand", "makes": guard.makes}
        for guard in here.guards.values()
        if guard.makes != "nothing"
        for name in guard.models
    ]
