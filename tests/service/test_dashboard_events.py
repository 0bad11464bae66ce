"""Pages hear of every entry once, whatever happens to them, to the store and to each other."""

from __future__ import annotations

import asyncio
import json
from threading import Event
from types import SimpleNamespace

import pytest

from evenhand.errors import AccessError, StoreError
from evenhand.service import open_service
from evenhand.service.dashboard import hub as hubs
from evenhand.service.dashboard.hub import EventHub, parse_positions

LIMIT = 30


class Reader:
    """What a page hears."""

    def __init__(self, hub, positions=None):
        self.events = hub.events(positions or {})
        self.kinds, self.numbers, self.place, self.comments = [], {}, "", 0

    async def hear(self):
        """The next event; None: the connection has ended."""
        try:
            text = await asyncio.wait_for(anext(self.events), LIMIT)
        except StopAsyncIteration:
            return None
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines() if not line.startswith(":"))
        self.comments += text.startswith(":")
        self.place = fields["id"]
        said = json.loads(fields["data"])
        self.kinds.append(fields["event"])
        if fields["event"] == "news":
            self.numbers.setdefault(said["stream"], []).extend(row["n"] for row in said["rows"])
        return said

    async def until(self, stream, number):
        while parse_positions(self.place).get(stream, -1) < number:
            assert await self.hear() is not None
        return self

    async def leave(self):
        await self.events.aclose()


@pytest.fixture
def here(settings):
    context = open_service(settings)
    yield context
    context.close()


def decide(here, name, *ids):
    futures = [
        here.ledger.submit(name, {"op": "decide", "id": one, "group": "men", "recommendation": 1}, id=one)
        for one in ids
    ]
    return [future.result().number for future in futures]


def hub_for(here, **options):
    return EventHub(here, **{"every": 0.005, **options})


def test_pages_that_come_and_go_miss_nothing_while_others_write(here):
    total = 200

    async def watch(hub):
        """Leaves after every few events, and comes back with the last id."""
        numbers, place = [], ""
        while True:
            reader = Reader(hub, parse_positions(place) or {"loans": 0})
            for _ in range(3):
                await reader.hear()
                if parse_positions(reader.place)["loans"] == total:
                    break
            await reader.leave()
            numbers += reader.numbers.get("loans", [])
            place = reader.place
            if parse_positions(place)["loans"] == total:
                return numbers

    async def everything():
        hub = hub_for(here)

        def write():
            for i in range(total):
                decide(here, "loans", f"p{i}")

        found = await asyncio.wait_for(asyncio.gather(*(watch(hub) for _ in range(4)), asyncio.to_thread(write)), LIMIT)
        assert hub.pages == 0
        return found[:-1]

    for numbers in asyncio.run(everything()):
        assert numbers == list(range(1, total + 1))


def test_the_store_is_asked_once_for_all_pages(here):
    async def looks(pages):
        hub = hub_for(here, every=0.01)
        asked, real = 0, hub._last_numbers

        def counting():
            nonlocal asked
            asked += 1
            return real()

        hub._last_numbers = counting
        readers = [Reader(hub) for _ in range(pages)]
        for reader in readers:
            await reader.hear()
        number = (await asyncio.to_thread(decide, here, "loans", f"with {pages}"))[0]
        for reader in readers:
            await reader.until("loans", number)
        before = asked
        await asyncio.sleep(0.1)
        for reader in readers:
            await reader.leave()
        return asked - before

    # Ten looks fit into this time, however many pages are open.
    assert asyncio.run(looks(20)) <= 11


def test_a_page_that_does_not_listen_is_let_go_and_comes_back_for_the_rest(here):
    async def page():
        hub = hub_for(here)
        slow, quick = Reader(hub, {"loans": 0}), Reader(hub, {"loans": 0})
        await slow.hear()
        await quick.hear()
        for i in range(hubs.MAX_WAITING_MESSAGES + 5):
            (number,) = await asyncio.to_thread(decide, here, "loans", f"p{i}")
            await quick.until("loans", number)
        said = 0
        while await slow.hear() is not None:
            said += 1
        assert said <= hubs.MAX_WAITING_MESSAGES
        assert hub.pages == 1
        again = Reader(hub, parse_positions(slow.place))
        await again.until("loans", number)
        await again.leave()
        await quick.leave()
        return slow.numbers.get("loans", []) + again.numbers["loans"], quick.numbers["loans"]

    slow, quick = asyncio.run(page())
    assert slow == quick == list(range(1, hubs.MAX_WAITING_MESSAGES + 6))


def test_only_so_many_pages_are_open(here):
    async def page():
        hub = hub_for(here, pages=2)
        readers = [Reader(hub) for _ in range(3)]
        await readers[0].hear()
        await readers[1].hear()
        with pytest.raises(AccessError, match="2 pages"):
            await readers[2].hear()
        await readers[0].leave()
        another = Reader(hub)
        await another.hear()
        await another.leave()
        await readers[1].leave()

    asyncio.run(page())


def test_too_much_at_once_is_read_again_by_the_page(here, monkeypatch):
    monkeypatch.setattr(hubs, "MAX_NEW_ROWS", 3)
    decide(here, "loans", *"abcdef")

    async def page():
        reader = Reader(hub_for(here), {"loans": 1})
        await reader.hear()
        said = await reader.hear()
        await reader.leave()
        return said

    assert asyncio.run(page()) == {"stream": "loans", "number": 6, "gap": True, "rows": []}


def test_a_store_that_fails_before_a_page_has_caught_up_is_told_and_nothing_is_missed(here, monkeypatch):
    decide(here, "loans", "a", "b", "c")

    async def page():
        reader = Reader(hub_for(here), {"loans": 1})
        await reader.hear()
        with monkeypatch.context() as patch:

            def away():
                raise StoreError("the disk is gone")

            patch.setattr(here.database, "reading", away)
            told = await reader.hear()
        await reader.until("loans", 3)
        await reader.leave()
        return told, reader

    told, reader = asyncio.run(page())
    assert told == {"failed": True, "message": "the disk is gone"}
    assert reader.kinds[:2] == ["hello", "store"]
    assert reader.numbers == {"loans": [2, 3]}


def test_a_store_that_fails_is_told_once_and_so_is_its_return(here):
    async def page():
        hub = hub_for(here)
        reader = Reader(hub, {"loans": 0})
        await reader.hear()
        real = hub._last_numbers

        def fails():
            raise StoreError("the store failed: it is away")

        hub._last_numbers = fails
        away = await reader.hear()
        await asyncio.sleep(0.05)
        hub._last_numbers = real
        back = await reader.hear()
        number = (await asyncio.to_thread(decide, here, "loans", "x"))[0]
        await reader.until("loans", number)
        await reader.leave()
        return away, back, reader.numbers["loans"]

    away, back, numbers = asyncio.run(page())
    assert away == {"failed": True, "message": "the store failed: it is away"}
    assert back == {"failed": False}
    assert numbers == [1]


def test_silence_is_broken_now_and_then(here):
    async def page():
        reader = Reader(hub_for(here, beat=0.02))
        for _ in range(3):
            await reader.hear()
        await reader.leave()
        return reader

    reader = asyncio.run(page())
    assert reader.kinds == ["hello", "beat", "beat"]
    assert reader.comments == 2


def test_connections_end_when_the_service_stops(here):
    async def page():
        stopping = Event()
        hub = hub_for(SimpleNamespace(database=here.database, stopping=stopping), beat=100.0)
        reader = Reader(hub)
        await reader.hear()
        stopping.set()
        assert await reader.hear() is None
        assert hub.pages == 0

    asyncio.run(page())
