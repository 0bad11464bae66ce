"""Routes that are asked thousands of times a second, without what resolves the arguments of any route."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from evenhand.service.security.keys import Requires


class Direct(APIRoute):
    """A route with a name in its path and a JSON body, called straight away.

    Its endpoint takes ``name``, ``asked`` (the body) and ``here`` (the context), and gives a response. It is declared
    and described like any other. A request that is not as it should be goes FastAPI's way, and gets its error there.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        otherwise = super().get_route_handler()
        endpoint = self.endpoint
        body: TypeAdapter[Any] = TypeAdapter(get_type_hints(endpoint, include_extras=True)["asked"])
        wanted = [one.dependency for one in self.dependencies if isinstance(one.dependency, Requires)]
        assert len(wanted) == len(self.dependencies), "a route of this kind depends on scopes alone"

        async def answer(request: Request) -> Response:
            for one in wanted:
                await one(request)
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return await otherwise(request)
            try:
                asked = body.validate_python(json.loads(await request.body()))
            except (ValidationError, ValueError, RecursionError):
                return await otherwise(request)
            response: Response = await endpoint(request.path_params["name"], asked, request.app.state.context)
            return response

        return answer
