"""While the store is away: every answer is in the log, or says that it is unguarded, or is an error."""

import asyncio
import json
import logging
import threading
from collections import Counter
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_settings import GUARD, LABELLED, PLAN
from starlette.testclient import TestClient

from evenhand.errors import DecisionError, StoreError
from evenhand.service import Database, Ledger, ServiceConfig, create_app, shields
from evenhand.service.state_machines import ShieldMachine
from evenhand.service.store import retry_queue
from evenhand.service.store.database import read_entries_after
from evenhand.shields import Shield, read_plan, synthesize
from support import scaled

GROUPS = ("women", "men")


class Failing(Database):
    """A store that fails when it is told to: before anything is written, or while it commits."""

    def __init__(self, url):
        self.plan = []
        self.down = False
        super().__init__(url)

    @contextmanager
    def transaction(self, *, durable=True):
        how = "before" if self.down else self.plan.pop(0) if self.plan else "works"
        if how == "before":
            raise StoreError("the store failed: no space left")
        with super().transaction(durable=durable) as connection:
            yield connection
        if how == "after":
            raise StoreError("the store failed: the connection broke")


@pytest.fixture(scope="module")
def policy():
    return synthesize(read_plan({**PLAN, "kind": "finite", "horizon": 60}))


class World:
    """A shield in a store that fails, and what callers were told."""

    def __init__(self, folder, policy, when_down="pass", database=Failing):
        self.database = database(f"sqlite:///{folder / 'evenhand.db'}")
        self.ledger = Ledger(self.database, {"loans": ShieldMachine(Shield(policy), {})}, pauses=())
        self.decider = shields.ShieldDecider(self.ledger, "loans", GROUPS, when_down)
        self.told = {}

    async def ask(self, id, group="women", recommendation=1):
        operation = {"op": "decide", "id": id, "group": group, "recommendation": recommendation}
        try:
            made = await self.decider.decide(operation)
        except (StoreError, DecisionError) as error:
            return error
        self.told.setdefault(id, []).append(made)
        return made

    async def settled(self):
        self.database.down, self.database.plan = False, []
        for _ in range(20_000):
            if self.decider.queue.is_empty:
                return
            await asyncio.sleep(0.001)
        raise AssertionError("what passed is not logged")

    def log(self):
        with self.database.reading() as connection:
            return [one["body"] for one in read_entries_after(connection, "loans", 0, 100_000)]

    def close(self):
        self.decider.queue.close()
        self.ledger.close()
        self.database.close()


@pytest.fixture(autouse=True)
def prompt(monkeypatch):
    monkeypatch.setattr(retry_queue, "RETRY_SECONDS", 0.002)


@pytest.fixture
def world(tmp_path, policy):
    one = World(tmp_path, policy)
    yield one
    one.close()


def test_what_passed_is_logged_in_its_order_and_given_again(world):
    async def run():
        before = await world.ask("0")
        world.database.down = True
        passed = [await world.ask(str(k), GROUPS[k % 2], k % 3 % 2) for k in range(1, 20)]
        assert [one.guarded for one in passed] == [False] * 19
        assert [one.answer["decision"] for one in passed] == [k % 3 % 2 for k in range(1, 20)]
        assert all(one.number is None and one.answer["reason"] == "unguarded" for one in passed)
        again = await world.ask("5", "men", 0)
        assert again.repeated
        assert (world.decider.queue.waiting, world.decider.passed) == (19, 19)
        await world.settled()
        after = await world.ask("20")
        assert after.guarded
        later = await world.ask("5", "men", 0)
        assert (later.guarded, later.repeated, dict(later.answer)) == (False, True, dict(again.answer))
        other = await world.ask("5", "men", 1)
        assert isinstance(other, DecisionError)
        assert other.code == "repeated"
        log = world.log()
        assert [one["id"] for one in log] == [str(k) for k in range(21)]
        assert [one["input"]["op"] for one in log] == ["decide", *["unguarded"] * 19, "decide"]
        assert log[1]["before"] == log[19]["before"] == log[20]["before"], "what passed has not counted"
        assert before.number == 1

    asyncio.run(run())


def test_an_id_means_one_request_also_while_the_store_is_away(world):
    async def run():
        world.database.down = True
        await world.ask("1", "women", 1)
        other = await world.ask("1", "women", 0)
        assert isinstance(other, DecisionError)
        assert other.code == "repeated"
        unknown = await world.ask("2", "children", 0)
        assert isinstance(unknown, DecisionError)
        assert unknown.code == "group"

    asyncio.run(run())


def test_who_asks_again_is_told_the_same_also_while_the_store_is_away(world):
    async def run():
        before = await world.ask("1")
        world.database.down = True
        again = await world.ask("1")
        assert (again.guarded, again.repeated, again.answer) == (True, True, before.answer)
        assert isinstance(await world.ask("1", recommendation=0), DecisionError)
        assert world.decider.queue.waiting == 0

    asyncio.run(run())


def test_who_asks_the_same_at_the_same_time_is_told_the_same(world, monkeypatch):
    monkeypatch.setattr(shields, "PATIENCE_SECONDS", 0.05)

    async def run():
        with world.database.transaction():  # What is asked now waits for this.
            answers = await asyncio.gather(*(world.ask("1") for _ in range(3)), world.ask("1", recommendation=0))
        assert [one.guarded for one in answers[:3]] == [False] * 3
        assert isinstance(answers[3], DecisionError)
        await world.settled()
        assert (await world.ask("1")).answer == answers[0].answer
        assert [one["input"]["op"] for one in world.log()] == ["unguarded"]

    asyncio.run(run())


def test_what_there_is_no_room_for_is_counted_and_told(world, monkeypatch):
    monkeypatch.setattr(retry_queue, "MAX_WAITING", 5)

    async def run():
        world.database.down = True
        answers = [await world.ask(str(k)) for k in range(12)]
        assert not any(one.guarded for one in answers)
        assert (world.decider.queue.waiting, world.decider.queue.lost, world.decider.passed) == (5, 7, 12)
        await world.settled()
        assert [one["input"] for one in world.log()][-1] == {"op": "unguarded", "missing": 7}
        assert len(world.log()) == 6

    asyncio.run(run())


def test_what_cannot_be_logged_is_counted_and_keeps_nothing_else_back(world, monkeypatch):
    plain = ShieldMachine.apply

    def refuses(self, operation, number):
        if operation.get("id") == "2":
            raise DecisionError("no", code="operation")
        return plain(self, operation, number)

    monkeypatch.setattr(ShieldMachine, "apply", refuses)

    async def run():
        world.database.down = True
        for k in range(1, 4):
            await world.ask(str(k))
        await world.settled()
        said = [one["input"].get("id", one["input"].get("missing")) for one in world.log()]
        assert said == ["1", "3", 1]
        assert world.decider.queue.lost == 1

    asyncio.run(run())


def test_a_store_that_hangs_is_not_waited_for(world, monkeypatch):
    monkeypatch.setattr(shields, "PATIENCE_SECONDS", 0.05)

    async def run():
        with world.database.transaction():  # Nobody else writes now.
            assert not (await world.ask("1")).guarded
            assert not (await world.ask("2")).guarded
        await world.settled()
        assert (await world.ask("3")).guarded
        said = [(one["id"], one["input"]["op"]) for one in world.log()]
        # The first was begun, and given up: what its caller was told is all that is logged.
        assert said == [("1", "unguarded"), ("2", "unguarded"), ("3", "decide")]
        again = await world.ask("1")
        assert (again.guarded, again.repeated) == (False, True)

    asyncio.run(run())


class Stalling(Failing):
    """A store that stalls once in one step of a transaction, until it is released."""

    def __init__(self, url):
        self.stage = ""
        self.reached, self.released = threading.Event(), threading.Event()
        super().__init__(url)

    def stall(self, stage):
        if self.stage == stage:
            self.stage = ""
            self.reached.set()
            assert self.released.wait(60)

    @contextmanager
    def transaction(self, *, durable=True):
        self.stall("begin")
        with super().transaction(durable=durable) as connection:
            yield connection
            self.stall("commit")
        self.stall("answer")


@pytest.mark.parametrize("then", ["works", "fails"])
@pytest.mark.parametrize("stage", ["begin", "apply", "claim", "commit", "answer"])
def test_the_log_has_what_was_delivered_wherever_a_decision_stalls(tmp_path, policy, monkeypatch, stage, then):
    monkeypatch.setattr(shields, "PATIENCE_SECONDS", 0.05)
    world = World(tmp_path, policy, database=Stalling)
    database = world.database
    apply, claim = ShieldMachine.apply, Ledger._claim

    def stalling_apply(self, operation, number):
        database.stall("apply")
        return apply(self, operation, number)

    def stalling_claim(self, tasks):
        tasks = list(tasks)
        database.stall("claim")
        claim(self, tasks)

    monkeypatch.setattr(ShieldMachine, "apply", stalling_apply)
    monkeypatch.setattr(Ledger, "_claim", stalling_claim)

    async def run():
        database.stage = stage
        waiting = [asyncio.create_task(world.ask(str(k), GROUPS[k % 2], k % 2)) for k in range(4)]
        await asyncio.to_thread(database.reached.wait, 60)
        claimed = stage in ("commit", "answer")
        if not claimed:
            # Nothing is committed yet, so nobody waits for it.
            assert not any(one.guarded for one in await asyncio.gather(*waiting))
        else:
            await asyncio.sleep(0.2)
            assert not any(one.done() for one in waiting), "a commit that has begun is waited for"
        if then == "fails":
            database.plan = ["before"]
        database.released.set()
        answers = await asyncio.gather(*waiting)
        if claimed:
            assert all(one.guarded for one in answers)
        await world.settled()
        return answers

    answers = asyncio.run(run())
    logged = {entry["id"]: entry for entry in world.log()}
    assert len(logged) == len(world.log()) == len(answers), "each is in the log once"
    for k, made in enumerate(answers):
        entry = logged[str(k)]
        assert (entry["input"]["op"] == "decide") is made.guarded
        assert entry["output"] == dict(made.answer)
    assert world.ledger.machines["loans"].shield.certificate().step == sum(made.guarded for made in answers)
    world.close()


def test_a_caller_who_leaves_does_not_stop_others(world):
    async def run():
        with world.database.transaction():  # What is asked now waits for this.
            first = asyncio.create_task(world.ask("1"))
            second = asyncio.create_task(world.ask("1"))
            await asyncio.sleep(0)
            first.cancel()
        assert (await second).guarded
        assert not world.decider._running

    asyncio.run(run())
    assert [entry["id"] for entry in world.log()] == ["1"]


def test_what_is_left_at_the_end_is_logged_or_told(tmp_path, policy, caplog):
    for back in (True, False):
        folder = tmp_path / str(back)
        folder.mkdir()
        world = World(folder, policy)

        async def run(world=world):
            world.database.down = True
            await world.ask("1")

        asyncio.run(run())
        world.database.down = not back
        with caplog.at_level(logging.ERROR, "evenhand.service"):
            caplog.clear()
            world.close()
        told = [one.about for one in caplog.records if "never logged" in one.message]
        assert told == ([] if back else [{"stream": "loans", "operations": 1}])
        if back:
            database = Database(f"sqlite:///{folder / 'evenhand.db'}")
            with database.reading() as connection:
                assert [one["body"]["id"] for one in read_entries_after(connection, "loans", 0)] == ["1"]
            database.close()


@given(
    asked=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 0, 0, 1])), min_size=1, max_size=40),
    failures=st.lists(st.sampled_from(["works", "works", "before", "after"]), max_size=60),
    together=st.integers(1, 8),
    when_down=st.sampled_from(["pass", "pass", "refuse"]),
)
@settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_never_a_silent_skip(asked, failures, together, when_down, tmp_path_factory, policy, monkeypatch):
    world = World(tmp_path_factory.mktemp("store"), policy, when_down)

    async def run():
        world.database.plan = list(failures)
        for k in range(0, len(asked), together):
            now = asked[k : k + together]
            await asyncio.gather(*(world.ask(str(one), GROUPS[one % 2], (one + other) % 2) for one, other in now))
        await world.settled()

    asyncio.run(run())
    logged = {}
    for entry in world.log():
        logged.setdefault(entry["id"], []).append(entry)
    for id, answers in world.told.items():
        for made in answers:
            if made.guarded:
                entry = world.log()[made.number - 1]
                assert (entry["id"], entry["output"]) == (id, made.answer)
            else:
                assert when_down == "pass"
                assert made.answer["guarded"] is False
                assert any(entry["output"] == dict(made.answer) for entry in logged[id]), "told, and not logged"
        assert len({json.dumps(made.answer, sort_keys=True) for made in answers}) == 1, "an id has one answer"
    # No decision counts twice, whatever failed.
    counted = Counter(entry["id"] for entry in world.log() if entry["input"]["op"] == "decide")
    assert all(count == 1 for count in counted.values())
    world.close()


def test_a_label_of_what_passed_is_refused_and_changes_nothing():
    shield = ShieldMachine(Shield(synthesize(read_plan(LABELLED))), {})
    before = shield.state()
    shield.apply({"op": "unguarded", "id": "1", "group": "women", "recommendation": 1}, 1)
    shield.apply({"op": "unguarded", "missing": 3}, 2)
    assert shield.state() == before
    with pytest.raises(DecisionError) as raised:
        shield.apply({"op": "label", "id": "1", "label": 1}, 3)
    assert raised.value.code == "unknown-id"


def test_over_http_nothing_passes_without_saying_so(tmp_path, monkeypatch):
    described = {
        "service": {"database": f"sqlite:///{tmp_path / 'evenhand.db'}", "keys": False},
        "shields": [{"name": "open", "plan": PLAN, "when_down": "pass"}, {"name": "closed", "plan": PLAN}],
        "guards": [
            {"name": "passing", "config": GUARD, "when_down": "pass"},
            {"name": "refusing", "config": GUARD},
        ],
    }
    with TestClient(create_app(ServiceConfig.read(described))) as client:

        def decide(shield, id):
            body = {"id": id, "group": "men", "recommendation": 1}
            return client.post(f"/v1/shields/{shield}/decisions", json=body)

        def draw(model):
            return client.post("/v1/images/generations", json={"prompt": "a leader", "model": model})

        def figure(name):
            found = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name)]
            return sum(float(line.rpartition(" ")[2]) for line in found)

        def guarded(answer):
            return answer.status_code, answer.headers["x-evenhand-guarded"]

        for answer in (decide("open", "1"), decide("closed", "1"), draw("passing"), draw("refusing")):
            assert guarded(answer) == (200, "true")
        database = client.app.state.context.database
        with monkeypatch.context() as away:

            def fails(**_options):
                raise StoreError("the store failed: no space left")

            away.setattr(database, "transaction", fails)
            passed = decide("open", "2")
            assert guarded(passed) == (200, "false")
            said = passed.json()
            assert (said["guarded"], said["decision"], said["reason"], said["number"]) == (False, 1, "unguarded", None)
            assert (said["guaranteed"], said["certificate"], said["bias"]) == (False, None, None)
            two = [{"id": str(k), "group": "men", "recommendation": 1} for k in (3, 4)]
            batch = client.post("/v1/shields/open/decisions/batch", json={"decisions": two})
            assert guarded(batch) == (200, "false")
            item = draw("passing")
            assert guarded(item) == (200, "false")
            assert item.headers["x-evenhand-status"] == "unguarded"
            for refused in (decide("closed", "2"), draw("refusing")):
                assert refused.status_code == 503
                assert "x-evenhand-guarded" not in refused.headers
            assert figure("evenhand_unlogged_recommendations") == 3
        for _ in range(2_000):
            if (
                not figure("evenhand_unlogged_recommendations")
                and decide("open", "5").headers["x-evenhand-guarded"] == "true"
            ):
                break
        log = [json.loads(line) for line in client.get("/v1/streams/open/log").text.splitlines()]
        assert [one["body"]["input"]["id"] for one in log if one["body"].get("input", {}).get("op") == "unguarded"] == [
            "2",
            "3",
            "4",
        ]
        again = decide("open", "2")
        assert (guarded(again), again.headers["x-evenhand-repeated"]) == ((200, "false"), "true")
        assert again.json()["number"] is not None
