"""Behind a reverse proxy: whose word is taken on where a request came from, and addresses that callers can reach."""

from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from evenhand.errors import OptionError
from evenhand.service import ServiceConfig, create_app
from evenhand.service.server import uvicorn_config


@pytest.fixture
def behind(described):
    """Makes the client that a proxy is; gives what `uvicorn` serves with more entries under [service]."""
    with ExitStack() as running:

        def start(peer, limits, **service):
            described["service"].update(service)
            described["limits"] = limits
            settings = ServiceConfig.read(described)
            config = uvicorn_config(settings, create_app(settings))
            config.load()
            return running.enter_context(TestClient(config.loaded_app, base_url="http://localhost", client=(peer, 1)))

        yield start


def statuses(client, *forwarded):
    return [client.get("/v1/shields", headers={"x-forwarded-for": one}).status_code for one in forwarded]


@pytest.mark.parametrize(
    ("peer", "trusted", "told_apart"),
    [
        ("10.0.0.7", [], False),
        ("127.0.0.1", [], False),
        ("10.0.0.7", ["10.0.0.8"], False),
        ("10.0.0.7", ["10.0.0.7"], True),
        ("10.0.0.7", ["10.0.0.0/8", "::1"], True),
    ],
)
def test_only_a_trusted_proxy_says_where_a_request_came_from(behind, peer, trusted, told_apart):
    client = behind(peer, {"requests_per_second": 0.001}, trusted_proxies=trusted)
    assert statuses(client, "192.0.2.1", "192.0.2.2", "192.0.2.1") == [200, 200 if told_apart else 429, 429]
    # The proxy adds the address that it saw behind whatever the caller wrote.
    assert statuses(client, "192.0.2.9, 192.0.2.1") == [429]


@pytest.mark.parametrize(
    ("entry", "given", "said"),
    [
        ("trusted_proxies", ["nginx"], "expected an address or a network, got 'nginx'"),
        ("trusted_proxies", ["10.0.0.1/8"], "expected an address or a network, got '10.0.0.1/8'"),
        ("public_url", "fair.example.org", "expected an HTTP URL, got 'fair.example.org'"),
        ("public_url", "https://user@fair.example.org", "expected an HTTP URL"),
        ("public_url", "https://fair.example.org/?x", "expected an HTTP URL"),
    ],
)
def test_what_is_no_address_is_refused(entry, given, said):
    with pytest.raises(OptionError, match=entry) as raised:
        ServiceConfig.read({"service": {entry: given}})
    assert said in str(raised.value)
    assert raised.value.hint.startswith("write ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"origin": "https://fair.example.org"}, 401),
        ({"origin": "http://localhost"}, 401),
        ({"origin": "https://other.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "https://fair.example.org"}, 403),
        ({"sec-fetch-site": "same-origin"}, 401),
    ],
)
def test_only_the_services_own_page_logs_in(described, serving_client, headers, status):
    described["service"].update(keys=True, public_url="https://fair.example.org")
    client = serving_client(ServiceConfig.read({"service": described["service"]}))
    answer = client.post("/login", data={"key": "wrong"}, headers=headers)
    assert answer.status_code == status
    assert ("page of another site" in answer.text) == (status == 403)
