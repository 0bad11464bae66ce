"""People log in through an identity provider: by its own signed word alone, with a role, for a time."""

import base64
import hashlib
import hmac
import html
import json
import time
from contextlib import ExitStack

import pytest

pytest.importorskip("joserfc", reason="needs the extra oidc")
pytest.importorskip("authlib", reason="needs the extra oidc")
httpx = pytest.importorskip("httpx", reason="needs httpx")

from identity_provider import CLIENT, SECRET, IdentityServer, sign, unsigned
from joserfc.jwk import ECKey, RSAKey
from service_settings import PLAN
from starlette.testclient import TestClient

from evenhand.errors import OptionError
from evenhand.service import Database, KeyStore, ServiceConfig, create_app, replay_stored_logs
from evenhand.service.auth.keys import COOKIE

ROLES = {"viewer": ["staff", "ops"], "admin": ["boss", "root"]}
PUBLIC = "https://fair.example.org"


@pytest.fixture(scope="module")
def running():
    with IdentityServer() as provider:
        yield provider


@pytest.fixture
def provider(running, monkeypatch):
    """The provider, which tells the truth again with every test."""
    running.keys, running.lies, running.secret, running.issuer_lie = [running.key], {}, SECRET, None
    running.claims = {"email": "ann@example.org", "roles": ["staff"]}
    running.token = lambda claims: sign(claims, running.key)
    monkeypatch.setenv("EVENHAND_TEST_CLIENT", SECRET)
    return running


def described(url, store, **changes):
    return {
        "service": {"database": store, "public_url": PUBLIC},
        "oidc": {"issuer": url, "client_id": CLIENT, "client_secret_env": "EVENHAND_TEST_CLIENT", "roles": ROLES}
        | changes,
        "shields": [{"name": "loans", "plan": PLAN}],
    }


@pytest.fixture
def start(provider, tmp_path):
    with ExitStack() as running:

        def begin(**changes):
            settings = ServiceConfig.read(described(provider.url, f"sqlite:///{tmp_path / 'kept.db'}", **changes))
            return running.enter_context(TestClient(create_app(settings), base_url=PUBLIC, follow_redirects=False))

        yield begin
    database = Database(f"sqlite:///{tmp_path / 'kept.db'}", make=False)
    assert replay_stored_logs(database).all_agree
    database.close()


@pytest.fixture
def client(start):
    return start()


def visit(client):
    """Go to the provider as a browser does, and return the address that it sends the browser back to."""
    there = client.get("/login/oidc")
    assert there.status_code == 303
    back = httpx.get(there.headers["location"], follow_redirects=False).headers["location"]
    assert back.startswith(f"{PUBLIC}/login/callback?")
    return back


def log_in(client):
    return client.get(visit(client))


def sessions(client):
    with KeyStore(client.app.state.context.database) as ring:
        known = ring.keys()
    return [key for key in known if key.session is not None]


def test_somebody_with_a_role_logs_in_and_out(client, start, caplog):
    assert client.get("/", headers={"accept": "text/html"}).headers["location"] == "/login"
    assert 'href="/login/oidc"' in client.get("/login").text
    there = client.get("/login/oidc").headers["set-cookie"].lower()
    assert all(word in there for word in ("__host-", "httponly", "samesite=lax", "secure", "max-age=600"))
    welcome = log_in(client)
    assert welcome.status_code == 200
    assert "url=/" in welcome.text
    (cookie,) = [one for one in welcome.headers.get_list("set-cookie") if one.startswith(COOKIE)]
    assert all(word in cookie.lower() for word in ("httponly", "samesite=strict", "secure", "max-age=28800"))
    assert client.get("/").status_code == 200
    assert client.get("/v1/dashboard").json()["caller"] == {"name": "ann@example.org", "key": True, "generate": False}
    key = client.cookies[COOKIE]
    log = client.get("/v1/streams/evenhand:keys/log").text
    assert json.loads(log.splitlines()[-1])["body"]["input"]["session"] == "subject-1"
    assert key not in log
    assert key not in caplog.text
    assert client.post("/logout").headers["location"] == "/login"
    assert COOKIE not in client.cookies
    # The session itself is over, not only the cookie.
    assert [one.status(time.time()) for one in sessions(client)] == ["revoked"]
    assert start().get("/v1/dashboard", headers={"cookie": f"{COOKIE}={key}"}).status_code == 401


@pytest.mark.parametrize(
    ("roles", "status"), [(["staff"], 403), (["staff", "ops"], 403), ("root", 422), (["x", "boss"], 422)]
)
def test_roles_come_from_a_claim(client, provider, roles, status):
    provider.claims["roles"] = roles
    assert log_in(client).status_code == 200
    assert client.get("/v1/shields").status_code == 200
    # The body makes no sense: what is allowed gets that far.
    assert client.post("/v1/shields/loans/decisions", json={}).status_code == status


def test_claims_may_lie_within_claims_and_names_be_missing(start, provider):
    client = start(role_claim="realm_access.roles", name_claim="nickname", session_hours=0.001)
    provider.claims = {"realm_access": {"roles": ["ops"]}}
    assert log_in(client).status_code == 200
    assert client.get("/v1/dashboard").json()["caller"]["name"] == "subject-1"
    (key,) = sessions(client)
    assert key.expires - key.made == pytest.approx(3.6)
    assert [key.status(key.expires + by) for by in (-0.1, 0.0)] == ["valid", "expired"]


def hmac_with_the_public_key(claims, key):
    text = unsigned(claims, {"alg": "HS256", "kid": key.kid}).removesuffix(".")
    made = hmac.new(key.as_pem(private=False), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def changed(token, claims):
    head, _, signature = token.split(".")
    return ".".join((head, unsigned(claims, {}).split(".")[1], signature))


OTHER = RSAKey.generate_key(2048, {"kid": "first"})
PUBLIC_OTHER = OTHER.as_dict(private=False)
UNKNOWN = RSAKey.generate_key(2048, {"kid": "another"})
NOW = int(time.time())
FUTURE = NOW + 10**8  # still to come when the test is run, however long after this line
FORGED = {
    "another key's signature": lambda p: setattr(p, "token", lambda c: sign(c, OTHER)),
    "a key that the provider does not have": lambda p: setattr(p, "token", lambda c: sign(c, UNKNOWN)),
    "no signature": lambda p: setattr(p, "token", lambda c: unsigned(c, {"alg": "none"})),
    "no signature under a name": lambda p: setattr(p, "token", lambda c: unsigned(c, {"alg": "RS256", "kid": "first"})),
    "none in capitals": lambda p: setattr(p, "token", lambda c: unsigned(c, {"alg": "NONE", "kid": "first"})),
    "the public key as a secret": lambda p: setattr(p, "token", lambda c: hmac_with_the_public_key(c, p.key)),
    "its own key in the header": lambda p: setattr(p, "token", lambda c: sign(c, OTHER, jwk=PUBLIC_OTHER)),
    "changed claims": lambda p: setattr(p, "token", lambda c: changed(sign(c, p.key), {**c, "roles": ["root"]})),
    "no token": lambda p: setattr(p, "token", lambda _: None),
    "nonsense": lambda p: setattr(p, "token", lambda _: "a.b.c"),
    "another audience": lambda p: p.lies.update(aud="another"),
    "several audiences and no party": lambda p: p.lies.update(aud=["another", CLIENT]),
    "another party": lambda p: p.lies.update(azp="another"),
    "no audience": lambda p: p.lies.update(aud=None),
    "another issuer": lambda p: p.lies.update(iss="https://other.example"),
    "another nonce": lambda p: p.lies.update(nonce="another"),
    "no nonce": lambda p: p.lies.update(nonce=None),
    "expired": lambda p: p.lies.update(exp=NOW - 3600, iat=NOW - 7200),
    "no expiry": lambda p: p.lies.update(exp=None),
    "not yet valid": lambda p: p.lies.update(nbf=FUTURE),
    "issued later": lambda p: p.lies.update(iat=FUTURE),
    "no subject": lambda p: p.lies.update(sub=None),
    "another access token": lambda p: p.lies.update(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_token_that_is_not_as_it_must_be_is_refused(client, provider, what):
    FORGED[what](provider)
    answer = log_in(client)
    assert answer.status_code == 401, answer.text
    assert "was refused" in answer.text
    assert COOKIE not in client.cookies
    assert client.get("/v1/shields").status_code == 401


@pytest.mark.parametrize("roles", [None, [], ["guests"], "STAFF", {"staff": True}, 7, [["staff"]]])
def test_nobody_without_a_role_gets_in(client, provider, roles):
    provider.claims["roles"] = roles
    answer = log_in(client)
    assert answer.status_code == 403
    assert "Ann@example.org has no role" in answer.text
    assert client.get("/v1/shields").status_code == 401


def test_an_answer_belongs_to_the_login_that_began_here(client, start):
    back = visit(client)
    # Somebody else's answer, put under a browser that began no login, or another one.
    assert start().get(back).status_code == 401
    other = start()
    visit(other)
    assert other.get(back).status_code == 401
    # Another state, another provider's name, an error, no code; and each login is answered once.
    assert client.get(back.replace("state=", "state=x")).status_code == 401
    for changed in ("iss=https%3A%2F%2Fother.example&", "error=access_denied&"):
        client.cookies.clear()
        back = visit(client).replace("iss=", "was=")
        answer = client.get(back.replace("?", f"?{changed}", 1))
        assert answer.status_code == 401, changed
    client.cookies.clear()
    back = visit(client)
    assert client.get(back).status_code == 200
    assert client.get(back).status_code == 401
    assert start().get("/login/callback").status_code == 401


def test_a_code_is_worth_nothing_without_its_verifier(client):
    back = visit(client)
    (name,) = [one for one in client.cookies if "login" in one]
    login = base64.urlsafe_b64decode(client.cookies[name].strip('"'))
    verifier = next(iter(json.loads(login).values()))["data"]["code_verifier"]
    changed = base64.urlsafe_b64encode(login.replace(verifier.encode(), b"another")).decode()
    client.cookies.clear()
    answer = client.get(back, headers={"cookie": f'{name}="{changed}"'})
    assert answer.status_code == 401
    assert "invalid_grant" in html.unescape(answer.text)


@pytest.mark.parametrize("login", ["", "x", "e30=", "W10=", "eyJhIjogMX0="])
def test_refuses_an_answer_without_a_login(client, login):
    back = visit(client)
    (name,) = [one for one in client.cookies if "login" in one]
    client.cookies.clear()
    assert client.get(back, headers={"cookie": f'{name}="{login}"'}).status_code == 401


def test_new_keys_of_the_provider_are_found(client, provider):
    assert log_in(client).status_code == 200
    later = ECKey.generate_key("P-256", {"kid": "second"})
    provider.keys = [later]
    provider.token = lambda claims: sign(claims, later, "ES256")
    assert log_in(client).status_code == 200


def test_sessions_are_listed_revoked_and_forgotten(client, start):
    log_in(client)
    database = client.app.state.context.database
    (first,) = sessions(client)
    assert (first.name, first.session) == ("ann@example.org", "subject-1")
    with KeyStore(database) as ring:
        plain = ring.add("ann@example.org", ["read"])
        ring.revoke(first.id)
    other = start()
    log_in(other)
    assert other.get("/v1/shields").status_code == 200, "at once, at any replica"
    assert other.get("/v1/shields", headers={"x-api-key": plain}).status_code == 200
    assert len(sessions(client)) == 1, "the one that ended is forgotten"
    with KeyStore(database) as ring, pytest.raises(OptionError, match="has a key already"):
        ring.add("ann@example.org", ["read"])


def test_a_provider_that_fails_is_told_of(client, provider, start):
    provider.secret = "another"
    answer = log_in(client)
    assert (answer.status_code, "sent an invalid response" in answer.text) == (502, True)
    provider.issuer_lie = "https://other.example"
    assert start().get("/login/oidc").status_code == 502
    gone = start(issuer="http://127.0.0.1:9")
    assert gone.get("/login/oidc").status_code == 502
    assert gone.get("/login").status_code == 200


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        ({"issuer": "http://login.example.org"}, "oidc.issuer"),
        ({"issuer": "login"}, "oidc.issuer"),
        ({"client_id": ""}, "oidc.client_id"),
        ({"roles": {"king": ["x"]}}, "oidc.roles"),
        ({"session_hours": 0}, "oidc.session_hours"),
        ({"secret": "x"}, "oidc"),
    ],
)
def test_a_section_that_makes_no_sense_is_refused(changes, location):
    with pytest.raises(OptionError) as refused:
        ServiceConfig.read(described("https://login.example.org", "sqlite:///x.db", **changes))
    assert str(refused.value.location).startswith(location)


@pytest.mark.parametrize("service", [{"keys": False}, {"public_url": None}])
def test_logins_need_keys_and_an_address(service):
    given = described("https://login.example.org", "sqlite:///x.db")
    with pytest.raises(OptionError, match="logins require"):
        ServiceConfig.read({**given, "service": {**given["service"], **service}})


def test_a_secret_that_is_not_there_is_missed_at_the_start(provider, tmp_path):
    store = f"sqlite:///{tmp_path / 'kept.db'}"
    given = ServiceConfig.read(described(provider.url, store, client_secret_env="EVENHAND_NOT_SET"))
    with (
        pytest.raises(OptionError, match="the environment variable EVENHAND_NOT_SET is not set"),
        TestClient(create_app(given)),
    ):
        pass
    assert not (tmp_path / "kept.db").exists()
