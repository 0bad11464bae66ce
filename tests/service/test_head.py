"""HEAD is answered wherever GET is, with the same head."""

import pytest

from evenhand.service import ServiceConfig, create_app

PLACES = ["/", "/login", "/assets/app.js", "/healthz", "/readyz", "/openapi.json", "/nothing", "/v1/dashboard"]
PLACES += ["/v1/shields", "/v1/shields/loans", "/v1/shields/x", "/v1/streams/loans/log"]


@pytest.mark.parametrize("path", PLACES)
def test_the_head_is_that_of_get_without_a_body(client, path):
    whole, head = (client.request(method, path, follow_redirects=False) for method in ("GET", "HEAD"))
    named = [dict(one.headers) for one in (head, whole)]
    assert len({one.pop("x-request-id") for one in named}) == 2
    assert (head.status_code, named[0]) == (whole.status_code, named[1])
    assert (head.content, bool(whole.content)) == (b"", whole.status_code != 303)


def test_what_is_only_posted_has_no_head_and_requests_are_counted_by_route(client):
    assert client.head("/v1/shields/loans/decisions").status_code == 405
    client.head("/v1/shields/loans")
    counted = client.get("/metrics").text
    assert 'evenhand_http_requests_total{method="HEAD",route="/v1/shields/{name}",status="200"} 1.0' in counted


def test_the_description_is_without_it():
    described = create_app(ServiceConfig()).openapi()
    assert not [path for path, item in described["paths"].items() if "head" in item]
