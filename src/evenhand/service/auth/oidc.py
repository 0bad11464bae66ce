"""Logins at an OpenID Connect provider: authorization code flow with PKCE, roles from a claim.

A login becomes a key of its own that ends by itself, so that everything that holds for keys holds for it: scopes,
limits, the log of who had which, the end at once when it is revoked, and every replica.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock
from typing import Any
from urllib.parse import quote_plus

from evenhand.core.http import HttpClient
from evenhand.errors import AccessError, FetchError, MissingExtraError, OptionError
from evenhand.service.auth.keys import ROLES, create_key, hash_key
from evenhand.service.settings import OidcConfig
from evenhand.service.state_machines import KEY_STREAM
from evenhand.service.store.ledger import Ledger

CALLBACK = "/login/callback"
"""Where the provider sends browsers back to, behind the service's public address."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signatures that are believed: those of a key that the provider alone has."""

LOGIN_SECONDS = 600
"""Time limit in seconds for the login at the provider."""

METADATA_SECONDS = 3600.0
"""Lifetime of the cached metadata and keys of the provider. Unknown keys are fetched at once."""

REFRESH_SECONDS = 10.0
"""Between two looks for a key that is not there."""

LEEWAY_SECONDS = 60
"""By which the provider's clock may differ."""

HINT = "see [oidc] of the service's file, and the provider's own log"


@dataclass(frozen=True)
class PendingLogin:
    """What a browser keeps while its user is at the provider.

    Attributes:
        state, nonce: come back with the answer and in the token; else it is not the answer to this question.
        verifier: proves that who asks for the token is who asked for the login (PKCE).
    """

    state: str
    nonce: str
    verifier: str

    @classmethod
    def begin(cls) -> PendingLogin:
        """Create a login with random secrets."""
        return cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48))

    def cookie(self) -> str:
        """Return the value of the cookie that keeps it."""
        return ".".join((self.state, self.nonce, self.verifier))

    @classmethod
    def parse(cls, cookie: str) -> PendingLogin:
        """Parse the cookie of a login.

        Raises:
            AccessError: it keeps no login.
        """
        parts = cookie.split(".")
        if len(parts) != 3 or not all(parts):
            raise AccessError(
                "no login was begun in this browser, or it took too long", code="key", hint="log in again"
            )
        return cls(*parts)


@dataclass(frozen=True)
class Identity:
    """Who logged in.

    Attributes:
        name: as the provider gives it.
        subject: by which the provider always means the same person.
        role: see ``ROLES``.
    """

    name: str
    subject: str
    role: str


class IdentityProvider:
    """An OpenID provider that people log in at. Its methods block.

    Args:
        config: see the service's file.
        public_url: of the service.
        clock: seconds since 1970, against which tokens expire.
        steady: seconds of a monotonic clock.

    Raises:
        MissingExtraError: Authlib is not installed.
        OptionError: the client's secret is not in the environment.
    """

    def __init__(
        self,
        config: OidcConfig,
        public_url: str,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        for needed in ("authlib", "joserfc"):
            if find_spec(needed) is None:
                raise MissingExtraError(needed, extra="oidc", purpose="for logins at an identity provider")
        self.config, self._redirect = config, public_url + CALLBACK
        self._clock, self._steady = clock, steady
        self._secret = "" if config.client_secret_env is None else os.environ.get(config.client_secret_env, "")
        if config.client_secret_env is not None and not self._secret:
            raise OptionError(
                f"the environment has no {config.client_secret_env}",
                location="oidc.client_secret_env",
                hint="set it to the secret that the provider gave this client",
            )
        self._client = HttpClient("the identity provider", config.issuer, 10.0, 1, 0.2, False, {}, HINT)
        self._lock = Lock()
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, Mapping[str, Any]] | None = None

    def authorization_url(self, login: PendingLogin) -> str:
        """Return where a browser is sent to log in.

        Raises:
            FetchError: the provider does not answer, or not as it should.
        """
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        url: str = prepare_grant_uri(
            self._read_provider_entry("authorization_endpoint"),
            self.config.client_id,
            "code",
            redirect_uri=self._redirect,
            scope=list(self.config.scopes),
            state=login.state,
            nonce=login.nonce,
            code_challenge=create_s256_code_challenge(login.verifier),
            code_challenge_method="S256",
        )
        return url

    def identify(self, login: PendingLogin, answer: Mapping[str, str]) -> Identity:
        """Identify the user from the provider's response.

        Args:
            login: as it was begun in this browser.
            answer: what stands in the address that the provider sent the browser back to.

        Raises:
            AccessError: it is not the provider's answer to this login, its token is not valid, or the person
                has none of the roles.
            FetchError: the provider does not answer, or not as it should.
        """
        if not hmac.compare_digest(answer.get("state", "").encode(), login.state.encode()):
            raise AccessError("this is not the answer to the login that began here", code="key", hint="log in again")
        if answer.get("iss", self.config.issuer) != self.config.issuer:
            raise _refusal_error("another provider answered")
        if "error" in answer or not answer.get("code"):
            said = answer.get("error", "")[:60]
            raise AccessError(f"the identity provider refused the login: {said!r}", code="key", hint="log in again")
        token = self._fetch_token(answer["code"], login.verifier)
        return self._identity(self._claims(token, login.nonce))

    def _fetch_token(self, code: str, verifier: str) -> Mapping[str, Any]:
        from authlib.oauth2.rfc6749.parameters import prepare_token_request

        body: str = prepare_token_request(
            "authorization_code",
            redirect_uri=self._redirect,
            code=code,
            code_verifier=verifier,
            client_id=self.config.client_id,
        )
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if self._secret:
            pair = f"{quote_plus(self.config.client_id)}:{quote_plus(self._secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            return self._ask("POST", self._read_provider_entry("token_endpoint"), headers, body.encode())
        except FetchError as error:
            if error.status == 400:
                raise _refusal_error("it does not take the code") from None
            raise

    def _claims(self, token: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        """Validate the signature, issuer, audience, times and nonce of a token, and return its claims."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jwk import KeySet

        text = token.get("id_token")
        if not isinstance(text, str):
            raise _refusal_error("it gave no id token")
        try:
            for fresh in (False, True):
                try:
                    keys = KeySet.import_key_set(dict(self._key_set(fresh=fresh)))
                    decoded = jwt.decode(text, keys, algorithms=list(ALGORITHMS))
                    break
                except InvalidKeyIdError:
                    if fresh:
                        raise
            wanted = {
                "iss": {"essential": True, "value": self.config.issuer},
                "aud": {"essential": True, "value": self.config.client_id},
            }
            about = {"nonce": nonce, "client_id": self.config.client_id, "access_token": token.get("access_token")}
            claims = CodeIDToken(decoded.claims, decoded.header, wanted, about)
            claims.validate(now=int(self._clock()), leeway=LEEWAY_SECONDS)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            what = getattr(error, "error", None) or type(error).__name__
            claim = getattr(error, "claim", None)
            raise _refusal_error(f"its token is not valid ({what}{'' if claim is None else f': {claim}'})") from None
        return dict(claims)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        held = _role_values(claims, self.config.role_claim)
        roles: dict[str, tuple[str, ...]] = dict(self.config.roles.items())
        role = next((role for role in reversed([*ROLES]) if held & set(roles.get(role, ()))), None)
        subject = str(claims["sub"])
        name = claims.get(self.config.name_claim)
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 100:
            name = subject[:100]
        if role is None:
            raise AccessError(
                f"there is no role here for {name}",
                code="scope",
                hint=f"none of the values of {self.config.role_claim!r} stands in oidc.roles of the service's file",
            )
        return Identity(name, subject, role)

    def _read_provider_entry(self, entry: str) -> str:
        """Return an entry of the provider's description, read once an hour."""
        with self._lock:
            now = self._steady()
            if self._metadata is None or now - self._metadata[0] > METADATA_SECONDS:
                metadata = self._ask("GET", f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration")
                if metadata.get("issuer") != self.config.issuer:
                    raise FetchError(
                        f"expected the issuer {self.config.issuer!r}, got {str(metadata.get('issuer'))[:100]!r}",
                        location="oidc.issuer",
                        hint="write its name as it does",
                    )
                self._metadata = now, metadata
            value = self._metadata[1].get(entry)
        if not isinstance(value, str) or not value.startswith(("https://", "http://")):
            raise FetchError(f"the identity provider describes no {entry}", location=self.config.issuer, hint=HINT)
        return value

    def _key_set(self, *, fresh: bool) -> Mapping[str, Any]:
        url = self._read_provider_entry("jwks_uri")
        with self._lock:
            now = self._steady()
            age = REFRESH_SECONDS if fresh else METADATA_SECONDS
            if self._keys is None or now - self._keys[0] > age:
                self._keys = now, self._ask("GET", url)
            return self._keys[1]

    def _ask(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Mapping[str, Any]:
        text = self._client.ask(method, url, {"accept": "application/json", **(headers or {})}, (self._secret,), body)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise FetchError("the identity provider did not answer with JSON", location=self.config.issuer, hint=HINT)
        return answer


def open_session(ledger: Ledger, identity: Identity, seconds: float, now: float) -> str:
    """Create the key of a session, which the browser keeps; it ends by itself.

    Raises:
        StoreError: the store failed.
    """
    key = create_key()
    operation = {
        "op": "add",
        "hash": hash_key(key),
        "name": identity.name,
        "scopes": sorted(ROLES[identity.role]),
        "expires": now + seconds,
        "at": now,
        "session": identity.subject,
    }
    ledger.submit(KEY_STREAM, operation).result()
    return key


def close_session(ledger: Ledger, key: str, now: float) -> None:
    """End the session of a key.

    Raises:
        StoreError: the store failed.
    """
    operation = {"op": "revoke", "key": key, "at": now}
    ledger.submit(KEY_STREAM, operation).result()


def _role_values(claims: Mapping[str, Any], name: str) -> set[str]:
    """Return the values of a claim, found by its name, or by names with points between them that lead into it."""
    values: Any = claims.get(name)
    if name not in claims:
        values = claims
        for part in name.split("."):
            values = values.get(part) if isinstance(values, Mapping) else None
    if isinstance(values, str):
        return {values}
    return {value for value in values if isinstance(value, str)} if isinstance(values, list) else set()


def _refusal_error(what: str) -> AccessError:
    return AccessError(f"the identity provider's answer was refused: {what}", code="key", hint="log in again")
