import time

import pytest
from chains import chained, verified
from counting import Counting
from sqlalchemy import func, insert, select

from evenhand.errors import DecisionError, StoreError
from evenhand.service import Database, Ledger, open_service
from evenhand.service.settings import RetentionConfig
from evenhand.service.store import upkeep
from evenhand.service.store.database import first_kept_number, read_entries_after, read_log
from evenhand.service.store.tables import answers, entries, pictures, replicas
from evenhand.service.store.upkeep import DAY_SECONDS, ENTRIES_PER_DELETE, JUMP_SECONDS, PICTURES_PER_DELETE

LOG_DAYS, PICTURE_DAYS = 8.0, 2.0


class House:
    """A store of which the clocks are told."""

    def __init__(self, url, log_days=LOG_DAYS, picture_days=PICTURE_DAYS):
        self.now, self.steady = 1.8e9, 5.0
        self.database = Database(url)
        self.ledger = Ledger(self.database, {"a": Counting(), "quiet": Counting()}, clock=lambda: self.now)
        config = RetentionConfig(log_days=log_days, picture_days=picture_days)
        clocks = {"clock": lambda: self.now, "steady": lambda: self.steady}
        self.retention = upkeep.RetentionJob(self.database, self.ledger, config, **clocks)

    def add(self, amount, id=None):
        return self.ledger.submit("a", {"op": "add", "amount": amount}, id=id).result(20)

    def passes(self, seconds):
        self.now += seconds
        self.steady += seconds

    def day(self, adds=3):
        """A day in which something is added every hour, with retention at its end."""
        for _ in range(adds):
            self.add(1, f"at {self.now}")
            self.passes(DAY_SECONDS / adds)
        self.retention.delete_expired()

    def logged(self):
        return list(read_log(self.database, "a"))

    def lowest(self):
        """The lowest number in the table of entries."""
        with self.database.reading() as connection:
            return connection.execute(select(func.min(entries.c.number)).where(entries.c.stream == "a")).scalar_one()

    def end(self):
        self.ledger.close()
        self.database.close()


@pytest.fixture
def house(store_url):
    house = House(store_url)
    yield house
    house.end()


def test_a_log_is_kept_as_long_as_it_must_and_no_longer_and_still_replays(house):
    for day in range(30):
        house.day()
        logged = verified(house.database)["a"]
        oldest = house.now - logged[0]["at"]
        if day > LOG_DAYS:
            assert LOG_DAYS * DAY_SECONDS <= oldest <= (LOG_DAYS * 9 / 8 + 1) * DAY_SECONDS
            assert logged[0]["number"] > 0
            assert logged[0]["body"].keys() == {"kind", "digest", "configuration", "state"}
        elif day < LOG_DAYS:
            assert logged[0]["number"] == 0
    assert logged[-1]["body"].get("output", {"total": 90})["total"] == 90
    assert house.lowest() == logged[0]["number"]
    # A stream in which nothing happens gets no entries for it.
    assert len(list(read_log(house.database, "quiet"))) == 1


def test_an_id_whose_answer_is_gone_is_still_used(house):
    house.add(5, "old")
    for _ in range(20):
        house.day(1)
    house.add(6, "new")
    with pytest.raises(DecisionError, match="was deleted") as caught:
        house.add(5, "old")
    assert caught.value.code == "repeated"
    with pytest.raises(DecisionError, match="was deleted"):
        house.add(7, "old")
    assert house.add(6, "new").repeated
    with house.database.reading() as connection:
        kept = connection.execute(select(answers).order_by(answers.c.number)).all()
        first = first_kept_number(connection, "a")
    assert kept[0].number < first, "the id is kept, its entry is not"
    assert not any("old" in str(row) for row in kept)
    verified(house.database)


def test_much_is_deleted_in_small_pieces_and_an_interruption_is_made_good(house, monkeypatch):
    for future in [
        house.ledger.submit("a", {"op": "add", "amount": 1}, id=f"{n}") for n in range(3 * ENTRIES_PER_DELETE)
    ]:
        future.result(30)
    house.passes(2 * DAY_SECONDS)
    house.retention.delete_expired()
    house.passes(2 * LOG_DAYS * DAY_SECONDS)
    house.add(1)
    done = 0
    aside = house.ledger.submit_work

    def interrupted(*arguments, **options):
        nonlocal done
        done += 1
        if done > 2:
            raise StoreError("the store is away")
        return aside(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(house.ledger, "submit_work", interrupted)
        with pytest.raises(StoreError, match="away"):
            house.retention.delete_expired()
    with house.database.reading() as connection:
        lowest = house.lowest()
        first = first_kept_number(connection, "a")
        assert 0 < lowest < first
        # What is left of the beginning is not read any more.
        assert read_entries_after(connection, "a", -1, 1)[0]["number"] == first
        assert read_entries_after(connection, "a", lowest, 1)[0]["number"] == first
    verified(house.database)
    house.retention.delete_expired()
    assert house.lowest() == first
    verified(house.database)


def test_who_reads_while_the_beginning_is_deleted_is_told(house):
    for _ in range(4):
        house.day()
    reading = read_log(house.database, "a", page=2)
    begun = [next(reading) for _ in range(2)]
    chained(begun)
    for _ in range(20):
        house.day()
    with pytest.raises(StoreError, match="were deleted while"):
        list(reading)


def test_without_a_limit_everything_stays_and_nothing_is_added(store_url):
    house = House(store_url, log_days=None, picture_days=None)
    for _ in range(20):
        house.day(1)
    assert [entry["number"] for entry in house.logged()] == list(range(21))
    house.end()


def _picture(house, number):
    with house.database.transaction() as connection:
        connection.execute(
            insert(pictures).values(stream="a", number=number, at=house.now, media_type="image/png", data=b"picture")
        )


def test_pictures_go_by_themselves(house):
    for number in range(PICTURES_PER_DELETE + 5):
        _picture(house, number)
    house.passes(PICTURE_DAYS * DAY_SECONDS - 60)
    _picture(house, 1000)
    house.retention.delete_expired()
    with house.database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(pictures)).scalar() == PICTURES_PER_DELETE + 6
    house.passes(120)
    house.retention.delete_expired()
    with house.database.reading() as connection:
        assert connection.execute(select(pictures.c.number)).scalars().all() == [1000]


@pytest.mark.parametrize("seconds", [1000 * DAY_SECONDS, -1000 * DAY_SECONDS, JUMP_SECONDS + 1])
def test_a_clock_that_jumps_deletes_nothing(house, seconds):
    for number in range(5):
        house.day()
        _picture(house, number)
    before = verified(house.database)
    house.now += seconds
    house.retention.delete_expired()
    assert verified(house.database) == before
    # It jumps back, as clocks do that were set right.
    house.now -= seconds
    house.retention.delete_expired()
    assert verified(house.database) == before
    with house.database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(pictures)).scalar() == 3


def test_a_running_service_does_it_by_itself(settings):
    context = open_service(settings)
    with context.database.transaction() as connection:
        connection.execute(
            insert(pictures).values(stream="studio", number=1, at=1.0, media_type="image/png", data=b"picture")
        )
    context.close()
    context = open_service(settings)
    try:
        for _ in range(600):
            with context.database.reading() as connection:
                beats = connection.execute(select(replicas.c.name, replicas.c.beat)).all()
                left = connection.execute(select(pictures.c.number)).scalars().all()
            if not left and beats[0].beat > 1:
                break
            time.sleep(0.05)
        assert left == []
        assert [row.name for row in beats] == [context.replica]
    finally:
        context.close()
