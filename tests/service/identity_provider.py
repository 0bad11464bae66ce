"""A small OpenID provider on loopback, for tests of logins: it signs tokens with its own key, and lies if told to."""

import base64
import hashlib
import json
import secrets
import time
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jws
from joserfc.jwk import KeySet, RSAKey

from evenhand.testing import HttpAnswer, LocalServer

CLIENT, SECRET = "evenhand", "s3cret/of+the client"


class IdentityServer(LocalServer):
    """One provider; a context manager that starts it and ends it.

    Attributes:
        claims: what its tokens say besides what they must.
        lies: changes what a token must say; None takes an entry out.
        token: makes the token's text from its claims; by default a signature of its key.
        key: that it signs with; its key set has ``keys``.
        secret: that clients must show; empty: none.
    """

    def __init__(self):
        super().__init__()
        self.key = RSAKey.generate_key(2048, {"kid": "first"})
        self.keys = [self.key]
        self.claims = {"email": "ann@example.org", "roles": ["staff"]}
        self.lies = {}
        self.token = lambda claims: sign(claims, self.key)
        self.secret = SECRET
        self.issuer_lie = None
        self.codes = {}
        self.asked = []

    @property
    def url(self):
        """The issuer."""
        return self.root

    def answer(self, path, headers, body):
        parts = urlsplit(path)
        self.asked.append(parts.path)
        if body:
            status, said = self.exchange(parse_form(body.decode()), headers.get("authorization", ""))
            more = {}
        else:
            status, more, said = self.get(parts)
        return HttpAnswer(status, more, json.dumps(said).encode())

    def get(self, parts):
        if parts.path == "/.well-known/openid-configuration":
            places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            found = {name: f"{self.url}/{place}" for name, place in places.items()}
            algorithms = ["RS256", "ES256", "HS256", "none"]
            issuer = self.issuer_lie or self.url
            return 200, {}, {**found, "issuer": issuer, "id_token_signing_alg_values_supported": algorithms}
        if parts.path == "/keys":
            return 200, {}, KeySet(self.keys).as_dict(private=False)
        if parts.path == "/authorize":
            asked = parse_form(parts.query)
            assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
            assert "openid" in asked["scope"].split()
            code = secrets.token_hex(8)
            self.codes[code] = asked
            back = urlencode({"code": code, "state": asked["state"], "iss": self.url})
            return 302, {"location": f"{asked['redirect_uri']}?{back}"}, {}
        return 404, {}, {}

    def exchange(self, form, authorization):
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if asked is None or challenge.rstrip(b"=").decode() != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        if form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if self.secret:
            given = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            if [unquote_plus(one) for one in given.split(":")] != [CLIENT, self.secret]:
                return 401, {"error": "invalid_client"}
        now = int(time.time())
        must = {"iss": self.url, "sub": "subject-1", "aud": CLIENT, "iat": now, "exp": now + 300}
        must["nonce"] = asked["nonce"]
        claims = {name: value for name, value in {**must, **self.claims, **self.lies}.items() if value is not None}
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.token(claims)}


def parse_form(text):
    return {name: values[0] for name, values in parse_qs(text).items()}


def sign(claims, key, algorithm="RS256", **header):
    """A token that a key signs."""
    return jws.serialize_compact(
        {"alg": algorithm, "kid": key.kid, **header}, json.dumps(claims), key, algorithms=[algorithm]
    )


def unsigned(claims, header):
    """A token that nobody signed, whatever its header says."""
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, claims)]
    return ".".join((*parts, ""))
