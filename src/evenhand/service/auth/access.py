"""Checks of requests: who calls, which scopes the route requires, and rate limits."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from fastapi import Request, params
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from evenhand.errors import AccessError
from evenhand.service.auth.keys import ANONYMOUS_CALLER, COOKIE, ApiKey, KeyCache, Scope
from evenhand.service.settings import ServerConfig

PROBES = ("/healthz", "/readyz")
"""Paths of health checks, which are exempt from limits."""

PUBLIC_PATHS = (*PROBES, "/openapi.json", "/login", "/login/oidc", "/login/callback", "/logout")
"""Paths that need no key."""

ASSETS = "/assets/"
"""Path of scripts and styles, which need no key because they are the same for all users."""

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""HTTP methods without side effects."""


def is_public(path: str) -> bool:
    """Return whether a path needs no key."""
    return path in PUBLIC_PATHS or path.startswith(ASSETS)


async def authenticate(
    headers: Headers, method: str, path: str, service: ServerConfig, keys: KeyCache
) -> ApiKey | None:
    """Return the caller of a request. None if the path is public.

    Routes check the scopes of the caller. A service without keys accepts requests to local names only, and none from
    web pages of other sites, including sites whose name points to this machine.

    Raises:
        AccessError: There is no valid key, or the request comes from another site.
    """
    key = cookie = None
    if service.keys:
        key = presented_key(headers)
        if key is None:
            key = cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
    else:
        # DNS rebinding: another site may own any host name except an IP address or a name without a dot.
        host = headers.get("host", "").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
        is_numeric = ":" in name or name.replace(".", "").isdigit()
        if not (is_numeric or "." not in name or name.endswith(".localhost")):
            raise AccessError(
                f"a service without keys does not accept the host name {name!r}",
                code="origin",
                hint="use localhost, or require keys: [service] keys = true",
            )
    # A browser also adds the cookie to requests from other pages.
    is_implicit = cookie is not None or not service.keys
    if is_implicit and method not in SAFE_METHODS and not is_own_page(headers, service.public_url):
        raise AccessError(
            "the request came from a page of another site", code="origin", hint="send the key in a header"
        )
    if not service.keys:
        return ANONYMOUS_CALLER
    if is_public(path):
        return None
    if not key:
        raise missing_key_error()
    return await keys.caller(key)


def missing_key_error() -> AccessError:
    """Build the error for a request without a key."""
    return AccessError("there is no key", code="key", hint="send a header: Authorization: Bearer evenhand_...")


def presented_key(headers: Headers) -> str | None:
    """Return the key in the headers of a request. None if there is none.

    Raises:
        AccessError: There are several keys, or the key is malformed.
    """
    bearer, api_keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    if not bearer and not api_keys:
        return None
    kind, _, key = (bearer[0] if bearer else f"Bearer {api_keys[0]}").partition(" ")
    if len(bearer) > 1 or len(api_keys) > 1 or kind.lower() != "bearer":
        raise missing_key_error()
    return key.strip()


def is_own_page(headers: Headers, public_url: str | None) -> bool:
    """Return whether a request comes from a page of the service itself or from no page, according to the browser.

    Args:
        headers: Headers of the request.
        public_url: Address that browsers use, if it differs from the address in the request.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin == public_url or origin.partition("://")[2] == headers.get("host")


class RequiredScope(HTTPBearer):
    """Dependency of routes that requires a scope, and describes the requirement in OpenAPI.

    A key that is limited to some streams may use routes whose path names one of them.

    Args:
        scope: Required scope.
        filtered: Whether the route checks ``ApiKey.streams`` itself.
    """

    def __init__(self, scope: Scope, *, filtered: bool = False) -> None:
        super().__init__(
            scheme_name="key", description="API key of the service, created by `evenhand keys add`.", auto_error=False
        )
        self.scope, self._filtered = scope, filtered
        self._accepted = {scope, "admin"}

    async def __call__(self, request: Request) -> ApiKey:  # type: ignore[override]  # FastAPI's returns the header
        """Return the caller.

        Raises:
            AccessError: There is no key, or it does not permit this request.
        """
        caller: ApiKey | None = request.scope.get("evenhand.caller")
        if caller is None:
            raise missing_key_error()
        if not caller.scopes & self._accepted:
            raise AccessError(
                f"the key {caller.id} of {caller.name} lacks the scope {self.scope!r}",
                code="scope",
                hint=f"evenhand keys add NAME --scope {self.scope}",
            )
        streams = None if self._filtered else caller.streams
        if streams is not None and request.path_params.get("name") not in streams:
            raise limited_key_error(caller)
        return caller


def limited_key_error(caller: ApiKey) -> AccessError:
    """Build the error for a request to a stream that its key does not cover."""
    return AccessError(
        f"the key {caller.id} of {caller.name} is limited to {', '.join(sorted(caller.streams or ()))}",
        code="scope",
        hint="evenhand keys add NAME --scope SCOPE --stream STREAM",
    )


def require_scope(scope: Scope, *, filtered: bool = False) -> Any:
    """Build a dependency of routes that returns the ``ApiKey`` of the caller, and refuses callers without a scope."""
    return params.Depends(RequiredScope(scope, filtered=filtered))


MAX_BUCKETS = 10_000
"""Maximum number of callers with a token bucket."""

FAILURES_PER_SECOND = 1.0
MAX_FAILURES = 60
"""Burst of requests without a valid key from one address. Further requests are refused with status 429."""


class TokenBuckets:
    """Token bucket for each caller.

    Args:
        per_second: Average number of requests per second.
        steady: Monotonic clock in seconds.
        burst: Maximum number of requests at once. Default: ``per_second``, but at least 1.
    """

    def __init__(
        self, per_second: float, steady: Callable[[], float] = time.monotonic, *, burst: float | None = None
    ) -> None:
        self._per_second, self._burst = per_second, burst or max(1.0, per_second)
        self._steady = steady
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_until_allowed(self, caller: str) -> float:
        """Return the seconds until the caller may send a request. For 0, the request is counted."""
        now = self._steady()
        tokens, updated = self._buckets.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - updated) * self._per_second)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._per_second
        self._buckets[caller] = (tokens if wait else tokens - 1, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class FailureThrottle:
    """Throttle of requests without a valid key, by address. Requests with a valid key are never throttled.

    Args:
        steady: Monotonic clock in seconds.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(FAILURES_PER_SECOND, steady, burst=MAX_FAILURES)

    def refusal(self, error: AccessError, address: str) -> AccessError:
        """Return the error of a request, or a rate error if too many requests came from its address."""
        wait = self._buckets.seconds_until_allowed(address)
        if not wait:
            return error
        return AccessError(
            "too many requests without a valid key came from this address",
            code="rate",
            hint=f"send a valid key, or retry in {wait:.1f} seconds",
        )
