"""Limits hold for whoever asks too often, too much or too slowly, and only for them."""

import asyncio

import pytest
from clocks import Clock
from service_settings import Line, in_loop
from starlette.responses import PlainTextResponse

from evenhand.service.api import envelope as module
from evenhand.service.api.envelope import RequestEnvelope
from evenhand.service.auth.access import TokenBuckets
from evenhand.service.settings import LimitsConfig


async def echo(scope, receive, send):
    message = await receive()
    assert not message["more_body"]
    await PlainTextResponse(message["body"])(scope, receive, send)


def limited(app=echo, **limits):
    return RequestEnvelope(app, LimitsConfig(**limits))


def test_a_rate_lets_bursts_through_and_then_its_number_per_second():
    clock = Clock()
    rate = TokenBuckets(5, clock)
    assert [rate.seconds_until_allowed("ann") for _ in range(5)] == [0] * 5
    assert rate.seconds_until_allowed("ann") == pytest.approx(0.2)
    assert rate.seconds_until_allowed("ann") == pytest.approx(0.2), "asking too early costs nothing"
    assert rate.seconds_until_allowed("bob") == 0
    clock.now += 0.2
    assert rate.seconds_until_allowed("ann") == 0
    assert rate.seconds_until_allowed("ann") == pytest.approx(0.2)
    clock.now += 1e6
    assert sum(not rate.seconds_until_allowed("ann") for _ in range(100)) == 5, "what was not used is not saved up"


@in_loop
async def test_who_asks_too_often_is_told_when_to_come_again():
    app = RequestEnvelope(echo, LimitsConfig(requests_per_second=0.25), Clock())
    first, second, other = [await Line(caller=one).over(app) for one in ("ann", "ann", "bob")]
    assert (first.status, second.status, other.status) == (200, 429, 200)
    assert second.error["code"] == "rate"
    assert second.headers[b"retry-after"] == b"4"


@in_loop
async def test_open_pages_of_the_dashboard_do_not_count_against_the_rate():
    app = RequestEnvelope(echo, LimitsConfig(requests_per_second=1), Clock())
    lines = [Line() for _ in range(5)]
    for line in lines[:4]:
        line.scope["path"] = module.NEWS_PATH
    assert [(await line.over(app)).status for line in lines] == [200] * 5


@in_loop
async def test_who_has_no_key_is_told_apart_by_address():
    app = RequestEnvelope(echo, LimitsConfig(requests_per_second=1), Clock())
    here, again, there = (Line(caller=None) for _ in range(3))
    there.scope["client"] = ("::2", 1)
    assert [(await line.over(app)).status for line in (here, again, there)] == [200, 429, 200]


@in_loop
async def test_no_limit_holds_for_probes():
    app = RequestEnvelope(echo, LimitsConfig(requests_per_second=1, in_flight=1), Clock())
    for path in ("/healthz", "/readyz") * 3:
        probe = Line(caller=None)
        probe.scope["path"] = path
        assert (await probe.over(app)).status == 200


@pytest.mark.parametrize("parts", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x"] * 11])
@pytest.mark.parametrize("claimed", [None, b"11", b"3", b"9" * 4_000, b"-1", b"\xb2"])
def test_bodies_that_are_too_large(parts, claimed):
    line = Line(parts, headers=[] if claimed is None else [(b"content-length", claimed)])
    before = len(line.parts)
    asyncio.run(line.over(limited(body_bytes=10)))
    assert (line.status, line.error["code"]) == (413, "size")
    assert line.headers[b"connection"] == b"close"
    if claimed in (b"11", b"9" * 4_000):
        assert len(line.parts) == before, "what claims to be too large is not even read"


@pytest.mark.parametrize("parts", [[b"x" * 10], [b"x" * 5, b"x" * 5], [b""], [b"", b"x", b""]])
def test_bodies_of_the_right_size_come_whole(parts):
    line = Line(parts)
    asyncio.run(line.over(limited(body_bytes=10)))
    assert line.status == 200
    assert line.sent[1]["body"] == b"".join(parts)


@in_loop
async def test_bodies_that_come_too_slowly():
    line = Line([b"x"], hold=asyncio.Event())
    await line.over(limited(body_seconds=0.01))
    assert (line.status, line.error["code"]) == (408, "slow")
    assert line.headers[b"connection"] == b"close"


@in_loop
async def test_many_large_bodies_together(monkeypatch):
    monkeypatch.setattr(module, "MAX_HELD_BYTES", 15)

    app = limited()
    first = Line([b"x" * 10], hold=asyncio.Event())
    task = asyncio.create_task(first.over(app))
    await asyncio.sleep(0)
    second = await Line([b"x" * 10]).over(app)
    assert (second.status, second.error["code"]) == (429, "busy")
    first.hold.set()
    await task
    assert (await Line([b"x" * 10]).over(app)).status == 200
    assert app.held_bytes == 0


@in_loop
async def test_requests_under_way_are_counted_per_caller():
    going = asyncio.Event()

    async def wait(scope, receive, send):
        await going.wait()
        await echo(scope, receive, send)

    app = limited(wait, in_flight=2)
    tasks = [asyncio.create_task(Line().over(app)) for _ in range(2)]
    for _ in range(3):
        await asyncio.sleep(0)
    third = await Line().over(app)
    assert (third.status, third.error["code"]) == (429, "busy")
    other = asyncio.create_task(Line(caller="bob").over(app))
    going.set()
    assert [line.status for line in await asyncio.gather(*tasks, other)] == [200] * 3
    assert (await Line().over(app)).status == 200
    assert not app.in_flight


@in_loop
async def test_a_fault_of_the_application_ends_the_count():
    async def fails(scope, receive, send):
        raise ValueError("a fault")

    app = limited(fails, in_flight=1)
    for _ in range(3):
        assert (await Line().over(app)).status == 500
    assert not app.in_flight


@in_loop
async def test_an_answer_that_takes_too_long():
    async def never(scope, receive, send):
        await asyncio.Event().wait()

    line = await Line().over(limited(never, request_seconds=0.01))
    assert (line.status, line.error["code"]) == (504, "late")
    assert "same id" in line.error["hint"]


@in_loop
async def test_the_time_of_an_answer_begins_after_the_request():
    async def pauses(scope, receive, send):
        await asyncio.sleep(0)
        await echo(scope, receive, send)

    line = Line([b"x"])
    receive = line.receive

    async def receive_slowly():
        await asyncio.sleep(0.3)
        return await receive()

    line.receive = receive_slowly
    assert (await line.over(limited(pauses, request_seconds=0.2))).status == 200


@in_loop
async def test_half_an_answer_is_not_taken_for_a_whole_one():
    async def half(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        await asyncio.Event().wait()

    line = await Line().over(limited(half, request_seconds=0.01))
    assert [message["type"] for message in line.sent] == ["http.response.start", "http.response.body"]


def test_a_time_out_of_the_application_itself_is_its_own():
    async def fails(scope, receive, send):
        raise TimeoutError("of an upstream")

    assert asyncio.run(Line().over(limited(fails))).status == 500
