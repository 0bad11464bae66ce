"""JSON bodies of requests: strict parsing, and routes that use it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from evenhand.core.canonical_json import unique_names
from evenhand.service.api.error_handlers import HttpError

JSON_TYPE = re.compile(r"\s*application/([^;]*\+)?json\s*(;|\Z)", re.IGNORECASE)
"""Pattern of a ``Content-Type`` header for JSON."""

_SURROGATE = re.compile(r"\\u[dD][89A-Fa-f]")


def parse_json_body(body: bytes) -> Any:
    """Parse the body of a request.

    Unlike `json.loads`, reject NaN, infinities, numbers out of the range of a float, duplicate keys, unpaired
    surrogates, and encodings other than UTF-8. None of these could be logged or sent to other services.

    Raises:
        HttpError: The body is not valid JSON.
    """
    try:
        text = body.decode("utf-8-sig")
        value = _DECODER.decode(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except UnicodeEncodeError:
        problem = "a text contains an unpaired surrogate"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} (line {error.lineno}, column {error.colno})" if error.doc else error.msg
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError as error:
        problem = str(error) if isinstance(error, _NumberError) else "an integer has too many digits"
    else:
        return value
    raise HttpError(400, f"the body is not valid JSON: {problem}", code="json", hint="send JSON as RFC 8259 defines it")


class _NumberError(ValueError):
    """A number that is not finite."""


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NumberError("a number is not finite")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=unique_names, parse_float=_parse_float, parse_constant=_parse_float)


class JsonRequest(Request):
    """A request whose JSON body is parsed by `parse_json_body`."""

    async def json(self) -> Any:
        """Parse the body.

        Raises:
            HttpError: The body is not valid JSON.
        """
        return parse_json_body(await self.body())


class JsonRoute(APIRoute):
    """A route with a JSON body.

    Raises:
        HttpError: A body is sent, but its content type is missing or is not JSON.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Build the request handler."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            if not isinstance(request, JsonRequest):
                request = JsonRequest(request.scope, request.receive)
            content_type = request.headers.get("content-type", "")
            if self.body_field is not None and not JSON_TYPE.match(content_type) and await request.body():
                received = repr(content_type[:100]) if content_type else "no Content-Type"
                raise HttpError(
                    415,
                    f"expected the Content-Type application/json, got {received}",
                    code="content_type",
                    hint="send the header Content-Type: application/json",
                )
            return await handler(request)

        return handle
