"""Pictures, in the shape of OpenAI's interface."""

from __future__ import annotations

import base64
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from evenhand.service.context import Context, context_of
from evenhand.service.disclosure import headers, told
from evenhand.service.faults import Fault
from evenhand.service.generators import PICTURES, for_pictures, options_of
from evenhand.service.guards import Served
from evenhand.service.routes import examples
from evenhand.service.routes.asking import answered, guard_for
from evenhand.service.routes.examples import shown
from evenhand.service.security import requires

router = APIRouter(prefix="/v1", tags=["generators"])

Here = Annotated[Context, Depends(context_of)]


class ImagesRequest(BaseModel):
    """A prompt for pictures; entries that are not named here are refused, unless the guard passes them on."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"model": "studio", "prompt": "a business leader", "n": 1}]},
    )

    prompt: Annotated[str, Field(min_length=1, max_length=32_000)]
    model: str | None = None
    n: Annotated[int, Field(ge=1, le=10, strict=True)] | None = None
    response_format: Literal["b64_json", "url"] | None = None
    stream: bool | None = None


@router.post("/images/generations", dependencies=[requires("generate")], responses=shown(examples.PICTURES))
async def generate(asked: ImagesRequest, request: Request, response: Response, here: Here) -> dict[str, Any]:
    """Pictures for a prompt; each is a request of its own for the guard.

    Where only some of several pictures could be made, those are answered, and ``x-evenhand-missing`` says how many are
    not there.
    """
    if asked.stream:
        raise Fault(400, "pictures are not streamed: they are looked at first", code="stream", mend="leave stream out")
    guard = guard_for(here, asked.model, "image")
    options = options_of(asked.model_extra or {}, {*PICTURES, *guard.entry.pass_on})
    generator, ignored = for_pictures(guard.workbench.generator, options)
    address = asked.response_format == "url"
    wanted = [
        guard.request(asked.prompt, generator=generator, route="images", address=address)
        for _ in range(asked.n or 1)
    ]  # fmt: skip
    found, missing = await answered(guard, wanted, here.settings.limits.upstream_seconds, what="picture")
    response.headers.update(headers([one.answer for one in found], [one.number for one in found]))
    if missing:
        response.headers["x-evenhand-missing"] = str(missing)
    if ignored:
        response.headers["x-evenhand-ignored"] = ", ".join(ignored)
    base = f"{str(request.base_url).rstrip('/')}/v1/pictures/"
    return {"created": int(time.time()), "data": [_picture(one, base if address else None) for one in found]}


@router.get("/pictures/{id}", responses={200: {"content": {"image/png": {}}}}, response_class=Response)
async def picture(
    id: Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{43}$")],  # noqa: A002
    here: Here,
) -> Response:
    """A picture that was answered by its address, which is all that is needed to get it."""
    found = await run_in_threadpool(here.pictures.find, id)
    if found is None:
        raise Fault(404, "there is no such picture, or its time is over", code="picture")
    # Some pictures can hold scripts; none is run.
    safe = {
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "cross-origin",
        "cache-control": "private, max-age=3600",
    }
    return Response(found.data, media_type=found.media_type, headers=safe)


def _picture(one: Served, base: str | None) -> dict[str, Any]:
    item = one.answer.item
    assert item is not None
    if item.kind != "image":
        raise Fault(400, "this model makes texts", code="model", mend="ask /v1/chat/completions")
    found: dict[str, Any] = {"evenhand": told(one.answer, one.number)}
    if one.answer.changed:
        found["revised_prompt"] = one.answer.prompt
    if base is None:
        return {"b64_json": base64.b64encode(item.data).decode(), **found}
    return {"url": f"{base}{one.picture}", **found}
