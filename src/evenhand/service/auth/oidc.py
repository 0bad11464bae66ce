"""Logins at an OpenID Connect provider: authorization code flow with PKCE, and roles from a claim.

A login creates an API key that expires. Scopes, limits, revocation and logging therefore apply to sessions as they do
to keys, in every replica.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote_plus

from fastapi import Request

from evenhand.errors import AccessError, EvenhandError, FetchError, MissingExtraError, OptionError
from evenhand.service.auth.keys import ROLES, build_key
from evenhand.service.settings import OidcConfig
from evenhand.service.state_machines import KEY_STREAM
from evenhand.service.store.ledger import Ledger

CALLBACK = "/login/callback"
"""Path to which the provider redirects browsers."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Accepted signature algorithms: the asymmetric ones, because only the provider has the private key."""

REFUSED_ERRORS = ("access_denied", "invalid_grant", "mismatching_state")
"""Errors of a login that concern the user. Others concern the provider or the configuration."""

LOGIN_SECONDS = 600
"""Time limit in seconds for the login at the provider."""

METADATA_SECONDS = 3600.0
"""Lifetime of the cached metadata and keys of the provider. Unknown keys are fetched immediately."""

TIMEOUT_SECONDS = 10.0
"""Time limit for a response of the provider."""

LEEWAY_SECONDS = 60
"""Maximum difference between the clocks of the provider and the service."""

HINT = "see [oidc] of the service's file, and the provider's own log"


@dataclass(frozen=True)
class Identity:
    """Authenticated user.

    Attributes:
        name: Name from the provider.
        subject: Permanent identifier of the user at the provider.
        role: Role from ``ROLES``.
    """

    name: str
    subject: str
    role: str


class IdentityProvider:
    """OpenID provider, accessed through Authlib.

    Args:
        config: Configuration of the provider.
        public_url: URL of the service.
        steady: Monotonic clock in seconds.

    Raises:
        MissingExtraError: Authlib is not installed.
        OptionError: The client secret is not in the environment.
    """

    def __init__(self, config: OidcConfig, public_url: str, *, steady: Callable[[], float] = time.monotonic) -> None:
        for module in ("authlib", "joserfc", "httpx2"):
            if find_spec(module) is None:
                raise MissingExtraError(module, extra="oidc", purpose="for logins at an identity provider")
        self.config, self._redirect, self._steady = config, public_url + CALLBACK, steady
        self._secret = "" if config.client_secret_env is None else os.environ.get(config.client_secret_env, "")
        if config.client_secret_env is not None and not self._secret:
            raise OptionError(
                f"the environment variable {config.client_secret_env} is not set",
                location="oidc.client_secret_env",
                hint="set it to the secret that the provider gave this client",
            )
        self._cached: tuple[float, Any] | None = None

    async def begin(self, request: Request) -> tuple[str, str]:
        """Return the URL of the login at the provider, and the value of the cookie of the login.

        Raises:
            FetchError: The response of the provider is missing or invalid.
        """
        session = request.scope["session"] = {}
        with self._translated_errors():
            client = await self._client()
            response = await client.authorize_redirect(request, self._redirect)
        return response.headers["location"], base64.urlsafe_b64encode(json.dumps(session).encode()).decode()

    async def identify(self, request: Request, cookie: str) -> Identity:
        """Identify the user from the provider's response.

        Args:
            request: Request sent by the browser when it returns from the provider.
            cookie: Value of the cookie from ``begin``.

        Raises:
            AccessError: It is not the response to this login, its token is invalid, or the user has no role.
            FetchError: The response of the provider is missing or invalid.
        """
        request.scope["session"] = _decode_session(cookie)
        if request.query_params.get("iss", self.config.issuer) != self.config.issuer:
            raise _refusal_error("it came from another provider")
        with self._translated_errors():
            client = await self._client()
            # Fetched before the token is decoded, so that later errors concern only the token.
            await client.fetch_jwk_set()
        required = {"iss": self.config.issuer, "aud": self.config.client_id}
        options = {name: {"essential": True, "value": value} for name, value in required.items()}
        from joserfc.errors import JoseError

        with self._translated_errors():
            try:
                token = await client.authorize_access_token(request, claims_options=options, leeway=LEEWAY_SECONDS)
            except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
                problem = getattr(error, "error", None) or type(error).__name__
                claim = getattr(error, "claim", None)
                raise _refusal_error(
                    f"its token is not valid ({problem}{'' if claim is None else f': {claim}'})"
                ) from None
        if not token.get("userinfo"):
            raise _refusal_error("it has no ID token")
        return self._identity(token["userinfo"])

    async def _client(self) -> Any:
        """Return Authlib's client with the metadata of the provider, which is read once an hour."""
        from authlib.integrations.starlette_client import OAuth

        if self._cached is None or self._steady() - self._cached[0] > METADATA_SECONDS:
            url = f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration"
            client = OAuth().register(
                "oidc",
                client_id=self.config.client_id,
                client_secret=self._secret or None,
                server_metadata_url=url,
                client_kwargs={
                    "scope": " ".join(self.config.scopes),
                    "code_challenge_method": "S256",
                    "token_endpoint_auth_method": _encode_client_secret if self._secret else "none",
                    "timeout": TIMEOUT_SECONDS,
                },
            )
            metadata = await client.load_server_metadata()
            if metadata.get("issuer") != self.config.issuer:
                raise FetchError(
                    f"expected the issuer {self.config.issuer!r}, got {str(metadata.get('issuer'))[:100]!r}",
                    location="oidc.issuer",
                    hint="write it exactly as the provider does",
                )
            algorithms = metadata.get("id_token_signing_alg_values_supported", ["RS256"])
            metadata["id_token_signing_alg_values_supported"] = [name for name in algorithms if name in ALGORITHMS]
            self._cached = self._steady(), client
        return self._cached[1]

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate errors of Authlib and of the connection."""
        from authlib.integrations.starlette_client import OAuthError
        from httpx2 import HTTPError, InvalidURL

        try:
            yield
        except EvenhandError:
            raise
        except OAuthError as error:
            code = str(error.error)[:60]
            if code in REFUSED_ERRORS:
                raise AccessError(
                    f"the identity provider refused the login: {code!r}", code="key", hint="log in again"
                ) from None
            raise self._provider_error(f"the identity provider answered with the error {code!r}") from None
        except (HTTPError, InvalidURL, RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise self._provider_error(f"the identity provider failed: {type(error).__name__}") from None

    def _provider_error(self, message: str) -> FetchError:
        return FetchError(message, location=self.config.issuer, hint=HINT)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        values = _role_values(claims, self.config.role_claim)
        roles: dict[str, tuple[str, ...]] = dict(self.config.roles.items())
        role = next((role for role in reversed([*ROLES]) if values & set(roles.get(role, ()))), None)
        subject = str(claims["sub"])
        name = claims.get(self.config.name_claim)
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 100:
            name = subject[:100]
        if role is None:
            raise AccessError(
                f"{name} has no role",
                code="scope",
                hint=f"add a value of {self.config.role_claim!r} to oidc.roles of the service's file",
            )
        return Identity(name, subject, role)


def _encode_client_secret(
    client: Any, _method: str, uri: str, headers: MutableMapping[str, str], body: Any
) -> tuple[str, MutableMapping[str, str], Any]:
    """Add the client secret to a token request, percent-encoded as RFC 6749 requires. Authlib does not encode it."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return uri, headers, body


def _decode_session(cookie: str) -> dict[str, Any]:
    """Decode the cookie of a login. Empty if there is no pending login."""
    try:
        session = json.loads(base64.urlsafe_b64decode(cookie))
    except ValueError:
        session = None
    if not isinstance(session, dict) or not all(isinstance(state, dict) for state in session.values()):
        return {}
    return session


def open_session(ledger: Ledger, identity: Identity, seconds: float, now: float) -> str:
    """Create the key of a session, which the browser keeps. It expires by itself.

    Raises:
        StoreError: The store failed.
    """
    key, operation = build_key(identity.name, ROLES[identity.role], seconds, now, session=identity.subject)
    ledger.submit(KEY_STREAM, operation).result()
    return key


def close_session(ledger: Ledger, key: str, now: float) -> None:
    """End the session of a key.

    Raises:
        StoreError: The store failed.
    """
    ledger.submit(KEY_STREAM, {"op": "revoke", "key": key, "at": now}).result()


def _role_values(claims: Mapping[str, Any], name: str) -> set[str]:
    """Return the values of a claim. Dots in its name separate the levels of nested claims."""
    values: Any = claims.get(name)
    if name not in claims:
        values = claims
        for part in name.split("."):
            values = values.get(part) if isinstance(values, Mapping) else None
    if isinstance(values, str):
        return {values}
    return {value for value in values if isinstance(value, str)} if isinstance(values, list) else set()


def _refusal_error(problem: str) -> AccessError:
    return AccessError(f"the response of the identity provider was refused: {problem}", code="key", hint="log in again")
