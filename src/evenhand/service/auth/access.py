"""Checks of the path and the headers of a request, before its body is read."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from evenhand.errors import AccessError
from evenhand.service.auth.keys import missing_key_error

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


def address_of(scope: Scope) -> str:
    """Return the IP address of a client."""
    client: tuple[str, int] | None = scope.get("client")
    return "" if client is None else client[0]


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


def check_host_name(headers: Headers) -> None:
    """Check the host name of a request to a service without keys, against DNS rebinding.

    Raises:
        AccessError: The host name may belong to another site.
    """
    host = headers.get("host", "").lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    is_numeric = ":" in name or name.replace(".", "").isdigit()
    # No site can own a name without a dot, or an address.
    if not (is_numeric or "." not in name or name.endswith(".localhost")):
        raise AccessError(
            f"a service without keys does not answer to the name {name!r}",
            code="origin",
            hint="ask for localhost, or require keys: [service] keys = true",
        )


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
