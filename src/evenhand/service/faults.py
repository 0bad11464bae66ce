"""Errors as HTTP answers: one body for all of them, which clients of OpenAI's interface understand."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from evenhand.errors import DecisionError, EvenhandError, FetchError, StoreError

CONFLICTS = ("repeated", "horizon", "contradiction")
"""Codes of decisions that a client cannot mend by asking differently."""


def body(message: str, *, kind: str, code: str | None, mend: str | None = None) -> dict[str, Any]:
    """What an error's answer says."""
    return {"error": {"message": message, "type": kind, "code": code, "mend": mend}}


def status_of(error: EvenhandError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, DecisionError):
        return 404 if error.code == "stream" else 409 if error.code in CONFLICTS else 422
    if isinstance(error, StoreError):
        return 503
    return 502 if isinstance(error, FetchError) else 422


def answer(error: EvenhandError) -> JSONResponse:
    """An error as an answer."""
    status = status_of(error)
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = error.code if isinstance(error, DecisionError) else type(error).__name__
    message = f"{error.where}: {error.what}" if error.where else error.what
    return JSONResponse(body(message, kind=kind, code=code, mend=error.mend), status)


def install(app: FastAPI) -> None:
    """Have the application answer with these errors."""

    @app.exception_handler(EvenhandError)
    async def _ours(_request: Request, error: EvenhandError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def _unreadable(_request: Request, error: RequestValidationError) -> JSONResponse:
        fault = error.errors()[0]
        entry = ".".join(map(str, fault["loc"][1:]))
        message = f"{entry}: {fault['msg']}" if entry else str(fault["msg"])
        return JSONResponse(body(message, kind="invalid_request_error", code="request"), 422)

    @app.exception_handler(HTTPException)
    async def _plain(_request: Request, error: HTTPException) -> JSONResponse:
        kind = "invalid_request_error" if error.status_code < 500 else "server_error"
        return JSONResponse(
            body(str(error.detail), kind=kind, code=str(error.status_code)), error.status_code, headers=error.headers
        )
