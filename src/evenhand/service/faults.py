"""Errors as HTTP answers: one body for all of them, which clients of OpenAI's interface understand."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from evenhand.errors import AccessError, DecisionError, EvenhandError, FetchError, StoreError

logger = logging.getLogger("evenhand.service")

CONFLICTS = ("repeated", "horizon", "contradiction")
"""Codes of decisions that a client cannot mend by asking differently."""

ABSENT = ("stream", "unknown-id")
"""Codes of what is not there."""

ACCESS = {"key": 401, "scope": 403, "origin": 403, "rate": 429, "busy": 429, "size": 413, "slow": 408, "late": 504}
"""HTTP statuses of what a caller may not do, or not now, by code."""


EXAMPLE: dict[str, Any] = {
    "error": {
        "message": "unknown group 'children'",
        "type": "invalid_request_error",
        "code": "group",
        "mend": "one of women, men",
    }
}


class FaultBody(BaseModel):
    """What was wrong."""

    message: str
    type: str
    code: str | None
    mend: Annotated[str | None, Field(description="What to do about it.")]


class FaultAnswer(BaseModel):
    """Every answer that is an error has this body."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    error: FaultBody


DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": FaultAnswer, "description": "The request makes no sense, or is not allowed; nothing was done."},
    "5XX": {"model": FaultAnswer, "description": "The service, its store or a generator failed."},
}
"""Of every route."""


class Fault(HTTPException):
    """An answer that is an error, with what to do about it.

    Args:
        status: of HTTP.
        message: one sentence.
        code: one word for programs.
        mend: what the reader can do about it.
        headers: of the answer.
    """

    def __init__(
        self, status: int, message: str, *, code: str, mend: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.mend = mend


def body(message: str, *, kind: str, code: str | None, mend: str | None = None) -> dict[str, Any]:
    """What an error's answer says."""
    return {"error": {"message": message, "type": kind, "code": code, "mend": mend}}


def status_of(error: EvenhandError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, AccessError):
        return ACCESS[error.code]
    if isinstance(error, DecisionError):
        return 404 if error.code in ABSENT else 409 if error.code in CONFLICTS else 422
    if isinstance(error, StoreError):
        return 503
    return 502 if isinstance(error, FetchError) else 422


def described(error: EvenhandError) -> dict[str, Any]:
    """What the answer to an error says."""
    kind = "invalid_request_error" if status_of(error) < 500 else "server_error"
    code = error.code if isinstance(error, DecisionError | AccessError) else type(error).__name__
    message = f"{error.where}: {error.what}" if error.where else error.what
    if isinstance(error, StoreError) and error.where:
        # Where the store is, and what it said, is nothing for callers: some of them need no key.
        logger.warning("the store: %s", error.what)
        message = "the store cannot be used now; the service's own log says why"
    return body(message, kind=kind, code=code, mend=error.mend)


def answer(error: EvenhandError) -> JSONResponse:
    """An error as an answer."""
    status = status_of(error)
    headers = {"www-authenticate": "Bearer"} if status == 401 else {"retry-after": "1"} if status == 429 else None
    return JSONResponse(described(error), status, headers)


def install(app: FastAPI) -> None:
    """Have the application answer with these errors."""

    @app.exception_handler(EvenhandError)
    async def _ours(_request: Request, error: EvenhandError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def _unreadable(_request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(_unread(error), 422)

    @app.exception_handler(HTTPException)
    async def _plain(_request: Request, error: HTTPException) -> JSONResponse:
        kind = "invalid_request_error" if error.status_code < 500 else "server_error"
        code, mend = (error.code, error.mend) if isinstance(error, Fault) else (str(error.status_code), None)
        return JSONResponse(
            body(str(error.detail), kind=kind, code=code, mend=mend), error.status_code, headers=error.headers
        )


def _unread(error: RequestValidationError) -> dict[str, Any]:
    """The first fault of a request that is not what its route takes; nothing of the request is quoted."""
    faults = error.errors()
    # A misspelt entry is unknown, and the one that was meant is missing: the first of these says more.
    fault = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    mend: str | None = "see /openapi.json"
    if fault["type"] == "json_invalid":
        mend = None
        message = f"the body is not valid JSON: {fault.get('ctx', {}).get('error', 'it ends too early')}"
    else:
        entry = ".".join(map(str, fault["loc"][1:]))
        said = {
            "extra_forbidden": "there is no such entry",
            "missing": "this is missing",
            "finite_number": "this is no finite number",
        }.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
        message = f"{entry}: {said}" if entry else said
    return body(message, kind="invalid_request_error", code="request", mend=mend)
