"""`evenhand serve` starts, says what it serves and stops cleanly; what cannot work is refused before that."""

import json
import signal
import urllib.request

import pytest

ONE = json.dumps({"id": "one", "group": "women", "recommendation": 1}).encode()


def post(url, body):
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop_and_goes_on_where_it_was(served, how):
    service = served()
    first = post(f"{service.url}/v1/shields/loans/decisions", ONE)
    assert service.stop(how) == 0
    assert service.err == ""
    assert service.out.rstrip().endswith("stopped")
    again = service.start()
    assert post(f"{again.url}/v1/shields/loans/decisions", ONE) == first


def test_it_says_where_it_is_and_what_it_serves(served):
    service = served(None)
    assert f"evenhand serves at {service.url}\n" in service.out
    for said in ("state       sqlite:///evenhand.db", "shield      loans", "generator   studio", "not needed"):
        assert said in service.out
    assert (service.folder / "evenhand.db").exists()
