"""No route is open that should not be."""

import re

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount
from starlette.testclient import TestClient

from evenhand.service import ServiceConfig, create_app
from evenhand.service.auth.access import ASSETS, PUBLIC_PATHS, RequiredScope, is_public
from evenhand.service.auth.keys import SCOPES, ApiKey, KeyCache

NOBODY = ApiKey("", "nobody", frozenset())


def walk(routes):
    """All routes; newer versions of FastAPI keep those of a router together."""
    for route in routes:
        router = getattr(route, "original_router", None)
        yield from (route,) if router is None else walk(router.routes)


def scopes_of(dependant):
    found = {dependant.call.scope} if isinstance(dependant.call, RequiredScope) else set()
    return found.union(*map(scopes_of, dependant.dependencies))


ROUTES = [pytest.param(route, id=route.path) for route in walk(create_app(ServiceConfig()).routes)]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "evenhand.db"
    with TestClient(create_app(ServiceConfig.read({"service": {"database": f"sqlite:///{store}"}}))) as client:
        yield client


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_wants_a_scope_or_is_public(route):
    if isinstance(route, Mount):
        assert f"{route.path}/" == ASSETS
        return
    scopes = scopes_of(route.dependant) if isinstance(route, APIRoute) else set()
    assert bool(scopes) != is_public(route.path), "a scope, or public: not both"
    assert scopes <= set(SCOPES)


@pytest.mark.parametrize("route", [one for one in ROUTES if not is_public(one.values[0].path)])
def test_nothing_is_said_without_a_key_nor_to_one_that_may_do_nothing(route, client, monkeypatch):
    path = re.sub(r"{.*?}", "x", route.path)
    for method in route.methods:
        assert client.request(method, path, follow_redirects=False).status_code == 401
        with monkeypatch.context() as within:

            async def nobody(_keys, _key):
                return NOBODY

            within.setattr(KeyCache, "caller", nobody)
            answer = client.request(method, path, headers={"authorization": "Bearer x"}, follow_redirects=False)
        assert answer.status_code == 403
        assert method == "HEAD" or answer.json()["error"]["code"] == "scope"


def test_few_things_are_public():
    logins = {"/login", "/login/oidc", "/login/callback", "/logout"}
    assert set(PUBLIC_PATHS) == {"/healthz", "/readyz", "/openapi.json"} | logins
    assert ASSETS == "/assets/"
