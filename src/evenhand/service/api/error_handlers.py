"""Error responses, with the body that clients of OpenAI's interface expect."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from evenhand.errors import AccessError, DecisionError, EvenhandError, FetchError, StoreError

logger = logging.getLogger("evenhand.service")

STATUSES = {
    "key": 401,
    "scope": 403,
    "origin": 403,
    "stream": 404,
    "unknown-id": 404,
    "slow": 408,
    "repeated": 409,
    "horizon": 409,
    "contradiction": 409,
    "expired": 409,
    "size": 413,
    "rate": 429,
    "busy": 429,
    "budget": 429,
    "replaced": 503,
    "late": 504,
}
"""HTTP statuses by error code. Other errors have a status by their class."""

RELAYED_STATUSES = (400, 409, 413, 422, 429)
"""Statuses of other services that are caused by the caller's request, not by the way Evenhand calls the service."""

EVENT_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Headers of event streams. nginx would otherwise hold back events to fill its buffer."""

ERROR_EXAMPLE: dict[str, Any] = {
    "error": {
        "message": "unknown group 'children'",
        "type": "invalid_request_error",
        "code": "group",
        "hint": "one of women, men",
    }
}


class ErrorBody(BaseModel):
    """Description of an error."""

    message: str
    type: str
    code: str | None
    hint: Annotated[str | None, Field(description="Instruction for the caller.")]


class ErrorAnswer(BaseModel):
    """Body of every error response."""

    model_config = ConfigDict(json_schema_extra={"examples": [ERROR_EXAMPLE]})

    error: ErrorBody


DOCUMENTED_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "The request is invalid or not allowed; nothing was changed."},
    "5XX": {"model": ErrorAnswer, "description": "The service, its store or a generator failed."},
}
"""Error responses of every route."""


class HttpError(HTTPException):
    """Error response with a code and a hint.

    Args:
        status: HTTP status.
        message: Description of the error in one sentence.
        code: Error code for programs.
        hint: Instruction for the caller.
        headers: Headers of the response.
    """

    def __init__(
        self, status: int, message: str, *, code: str, hint: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code, self.hint = code, hint


def error_body(message: str, *, kind: str, code: str | None, hint: str | None = None) -> dict[str, Any]:
    """Build the body of an error response."""
    return {"error": {"message": message, "type": kind, "code": code, "hint": hint}}


def http_status(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, AccessError | DecisionError):
        return STATUSES.get(error.code, 422)
    if isinstance(error, StoreError | FetchError):
        return 503 if isinstance(error, StoreError) else 502
    return 422 if isinstance(error, EvenhandError) else 500


def describe_error(error: BaseException) -> dict[str, Any]:
    """Build the body of the response to an error."""
    kind = "invalid_request_error" if http_status(error) < 500 else "server_error"
    if isinstance(error, HTTPException):
        code = error.code if isinstance(error, HttpError) else str(error.status_code)
        return error_body(str(error.detail), kind=kind, code=code, hint=getattr(error, "hint", None))
    if not isinstance(error, EvenhandError):
        return error_body("the service failed", kind=kind, code=None)
    code = error.code if isinstance(error, DecisionError | AccessError) else type(error).__name__
    message = f"{error.location}: {error.message}" if error.location else error.message
    if isinstance(error, StoreError) and error.location:
        # Callers, which may have no key, do not receive the address and the messages of the store.
        logger.warning("the store: %s", error.message)
        message = "the store is unavailable; the log of the service has the reason"
    return error_body(message, kind=kind, code=code, hint=error.hint)


def error_response(error: EvenhandError) -> JSONResponse:
    """Build the response to an error."""
    status = http_status(error)
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    if status == 429:
        headers = {"retry-after": str(math.ceil(error.retry_after if isinstance(error, AccessError) else 1))}
    if isinstance(error, DecisionError) and error.code == "budget":
        # Spending is counted by the hour, so a retry before the next hour is useless.
        headers = {"retry-after": str(3600 - int(time.time()) % 3600), "x-should-retry": "false"}
    return JSONResponse(describe_error(error), status, headers)


def relayed_error(
    error: Exception | None, headers: Mapping[str, str], statuses: Collection[int] = RELAYED_STATUSES
) -> HttpError | None:
    """Return the error of another service as an error of this service, or None if it does not concern the caller's
    request.

    Status, code, message and Retry-After are kept, so that clients can react as if they called the service directly.

    Args:
        error: Error of the other service.
        headers: Further headers of the response.
        statuses: Statuses that concern the caller's request.
    """
    if not isinstance(error, FetchError) or error.status is None or error.status not in statuses:
        return None
    reason = f": {error.reason}" if error.reason else ""
    return HttpError(
        error.status,
        f"the generator's service refused the request with status {error.status}{reason}",
        code=error.code or "refused",
        hint="retry later" if error.status == 429 else "correct the request",
        headers={**headers, **retry_after_header(error)},
    )


def retry_after_header(error: Exception | None) -> dict[str, str]:
    """Return the header Retry-After with the seconds that another service requested, if it did."""
    seconds = error.retry_after if isinstance(error, FetchError) else None
    return {"retry-after": str(math.ceil(seconds))} if seconds else {}


def install_handlers(app: FastAPI) -> None:
    """Register the handlers of these errors with the application."""

    @app.exception_handler(EvenhandError)
    async def _handle_error(_request: Request, error: EvenhandError) -> JSONResponse:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def _handle_validation_error(_request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(_describe_validation_error(error), 422)

    @app.exception_handler(HTTPException)
    async def _handle_http_exception(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(describe_error(error), error.status_code, headers=error.headers)


def _describe_validation_error(error: RequestValidationError) -> dict[str, Any]:
    """Describe the first fault of an invalid request, without quoting the request."""
    faults = error.errors()
    # A misspelt entry causes two faults: an unknown entry and a missing entry. The first is more helpful.
    fault = next((candidate for candidate in faults if candidate["type"] == "extra_forbidden"), faults[0])
    entry = ".".join(map(str, fault["loc"][1:]))
    problem = {"extra_forbidden": "there is no such entry", "missing": "this is missing"}.get(
        fault["type"], str(fault["msg"]).removeprefix("Value error, ")
    )
    message = f"{entry}: {problem}" if entry else problem
    return error_body(message, kind="invalid_request_error", code="request", hint="see /openapi.json")
