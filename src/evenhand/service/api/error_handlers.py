"""Errors as HTTP answers: one body for all of them, which clients of OpenAI's interface understand."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from evenhand.errors import AccessError, DecisionError, EvenhandError, FetchError, StoreError

logger = logging.getLogger("evenhand.service")

CONFLICT_CODES = ("repeated", "horizon", "contradiction", "expired")
"""Codes of decisions that a client cannot mend by asking differently."""

ABSENT_CODES = ("stream", "unknown-id")
"""Codes of not-found errors."""

ACCESS_STATUSES = {
    "key": 401,
    "scope": 403,
    "origin": 403,
    "rate": 429,
    "busy": 429,
    "size": 413,
    "slow": 408,
    "late": 504,
}
"""HTTP statuses of access errors, by code."""


ERROR_EXAMPLE: dict[str, Any] = {
    "error": {
        "message": "unknown group 'children'",
        "type": "invalid_request_error",
        "code": "group",
        "hint": "one of women, men",
    }
}


class ErrorBody(BaseModel):
    """What was wrong."""

    message: str
    type: str
    code: str | None
    hint: Annotated[str | None, Field(description="What to do about it.")]


class ErrorAnswer(BaseModel):
    """Every answer that is an error has this body."""

    model_config = ConfigDict(json_schema_extra={"examples": [ERROR_EXAMPLE]})

    error: ErrorBody


DOCUMENTED_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "The request makes no sense, or is not allowed; nothing was done."},
    "5XX": {"model": ErrorAnswer, "description": "The service, its store or a generator failed."},
}
"""Of every route."""


class ServiceHTTPException(HTTPException):
    """Error response with a code and a hint.

    Args:
        status: of HTTP.
        message: one sentence.
        code: one word for programs.
        hint: what the reader can do about it.
        headers: of the answer.
    """

    def __init__(
        self, status: int, message: str, *, code: str, hint: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.hint = hint


def error_body(message: str, *, kind: str, code: str | None, hint: str | None = None) -> dict[str, Any]:
    """Build the body of an error response."""
    return {"error": {"message": message, "type": kind, "code": code, "hint": hint}}


def http_status(error: EvenhandError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, AccessError):
        return ACCESS_STATUSES[error.code]
    if isinstance(error, DecisionError):
        if error.code in ("budget", "replaced"):
            return 429 if error.code == "budget" else 503
        return 404 if error.code in ABSENT_CODES else 409 if error.code in CONFLICT_CODES else 422
    if isinstance(error, StoreError):
        return 503
    return 502 if isinstance(error, FetchError) else 422


def describe_error(error: EvenhandError) -> dict[str, Any]:
    """Build the body of the response to an error of Evenhand."""
    kind = "invalid_request_error" if http_status(error) < 500 else "server_error"
    code = error.code if isinstance(error, DecisionError | AccessError) else type(error).__name__
    message = f"{error.location}: {error.message}" if error.location else error.message
    if isinstance(error, StoreError) and error.location:
        # Where the store is, and what it said, is nothing for callers: some of them need no key.
        logger.warning("the store: %s", error.message)
        message = "the store cannot be used now; the service's own log says why"
    return error_body(message, kind=kind, code=code, hint=error.hint)


def error_response(error: EvenhandError) -> JSONResponse:
    """Return an error as an answer."""
    status = http_status(error)
    headers = {"www-authenticate": "Bearer"} if status == 401 else {"retry-after": "1"} if status == 429 else None
    if isinstance(error, DecisionError) and error.code == "budget":
        # Spending is counted by the hour: before the next one, asking again is of no use.
        headers = {"retry-after": str(3600 - int(time.time()) % 3600), "x-should-retry": "false"}
    return JSONResponse(describe_error(error), status, headers)


EVENT_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Headers of event streams. nginx would otherwise hold back events to fill its buffer."""

RELAYED_STATUSES = (400, 409, 413, 422, 429)
"""Statuses of other services that are about the request of the caller, and not about how Evenhand calls the service."""


def relayed_error(error: Exception | None, headers: Mapping[str, str]) -> ServiceHTTPException | None:
    """Return the error of another service as an error of this one, or None if it is not about the caller's request.

    Status, code, message and Retry-After are kept, so that clients can react as if they called the service directly.

    Args:
        error: The error of the other service.
        headers: More headers of the response.
    """
    if not isinstance(error, FetchError) or error.status is None or error.status not in RELAYED_STATUSES:
        return None
    reason = f": {error.reason}" if error.reason else ""
    return ServiceHTTPException(
        error.status,
        f"the service behind the guards refused this with status {error.status}{reason}",
        code=error.code or "refused",
        hint="ask again later" if error.status == 429 else "correct the request",
        headers={**headers, **retry_after_header(error)},
    )


def retry_after_header(error: Exception | None) -> dict[str, str]:
    """Return the header Retry-After with the seconds that another service asked for, if it did."""
    seconds = error.retry_after if isinstance(error, FetchError) else None
    return {"retry-after": str(math.ceil(seconds))} if seconds else {}


def describe_any_error(error: BaseException) -> dict[str, Any]:
    """Return the body of the response to an error."""
    if isinstance(error, EvenhandError):
        return describe_error(error)
    if not isinstance(error, HTTPException):
        return error_body("the service failed", kind="server_error", code=None)
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    code = str(error.status_code)
    hint: str | None = None
    if isinstance(error, ServiceHTTPException):
        code, hint = error.code, error.hint
    return error_body(str(error.detail), kind=kind, code=code, hint=hint)


def install_handlers(app: FastAPI) -> None:
    """Register the handlers of these errors with the application."""

    @app.exception_handler(EvenhandError)
    async def _ours(_request: Request, error: EvenhandError) -> JSONResponse:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def _unreadable(_request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(_describe_validation_error(error), 422)

    @app.exception_handler(HTTPException)
    async def _plain(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(describe_any_error(error), error.status_code, headers=error.headers)


def _describe_validation_error(error: RequestValidationError) -> dict[str, Any]:
    """Describe the first fault of an invalid request, without quoting the request."""
    faults = error.errors()
    # A misspelt entry is unknown, and the one that was meant is missing: the first of these says more.
    fault = next((candidate for candidate in faults if candidate["type"] == "extra_forbidden"), faults[0])
    entry = ".".join(map(str, fault["loc"][1:]))
    problem = {"extra_forbidden": "there is no such entry", "missing": "this is missing"}.get(
        fault["type"], str(fault["msg"]).removeprefix("Value error, ")
    )
    message = f"{entry}: {problem}" if entry else problem
    return error_body(message, kind="invalid_request_error", code="request", hint="see /openapi.json")
