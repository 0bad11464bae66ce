"""Checks a log against what clients were told, knowing nothing of the service's own code.

Hashes are computed here, decisions are derived again by a fresh shield or enforcer from the first entry on, and
fairness is counted from nothing but what was decided and delivered.
"""

import hashlib
import json
import sqlite3
from collections import Counter, defaultdict
from fractions import Fraction
from urllib.parse import urlsplit

from ordeal import HIRED, MOST_PICTURES

from evenhand.genai import Enforcer
from evenhand.monitoring import Monitor, read_monitor_config
from evenhand.monitoring.state import monitor_to_dict
from evenhand.service import Database, replay_stored_logs
from evenhand.service.monitor_machine import MonitorMachine
from evenhand.service.store.transaction import LoadedMachine, follow_stream
from evenhand.shields import Shield, read_plan, synthesize


class Store:
    """The tables of a store, read by plain SQL."""

    def __init__(self, url):
        self.url = url

    def rows(self, query):
        if self.url.startswith("sqlite"):
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30)
            try:
                return connection.execute(query).fetchall()
            finally:
                connection.close()
        import psycopg

        with psycopg.connect("postgresql://" + self.url.partition("://")[2]) as server:
            return server.execute(query).fetchall()

    def entries(self, stream, after=-1):
        assert stream.isalnum()
        return self.rows(
            "SELECT stream, number, at, body, previous, hash FROM entries"
            f" WHERE stream = '{stream}' AND number > {after} ORDER BY number"
        )

    def sound(self):
        """SQLite's own check of its file."""
        if self.url.startswith("sqlite"):
            assert self.rows("PRAGMA integrity_check") == [("ok",)], urlsplit(self.url).path

    def head(self, stream):
        ((number, last, state),) = self.rows(f"SELECT number, hash, state FROM streams WHERE name = '{stream}'")
        return number, last, json.loads(state)


class Referee:
    """Follows one stream's log from its beginning; what it has seen once is not looked at again."""

    def __init__(self, store, stream):
        self.store, self.stream = store, stream
        self.number, self.last = -1, "0" * 64
        self.answers = {}
        self.at = []

    def follow(self):
        """Go on to the log's end; how many entries there were."""
        found = self.store.entries(self.stream, self.number)
        for row in found:
            self._entry(*row)
        number, last, state = self.store.head(self.stream)
        if number == self.number:  # Nobody wrote between the two readings.
            assert last == self.last
            self.same_state(json.loads(json.dumps(state)))
        else:
            assert number > self.number, f"{self.stream}: the head went back from {self.number} to {number}"
        return len(found)

    def _entry(self, stream, number, at, body, previous, last):
        assert stream == self.stream
        assert number == self.number + 1, f"{stream}: entry {number} follows {self.number}"
        assert previous in (None, self.last), f"{stream}: entry {number} is chained to another one"
        text = json.dumps([self.last, stream, number, at, body], sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == last, f"{stream}: entry {number} was changed"
        self.number, self.last = number, last
        self.at.append(at)
        said = json.loads(body)
        if number == 0:
            self.begin(said)
            return
        if said["id"] is not None:
            assert said["id"] not in self.answers, f"{stream}: two entries for the id {said['id']!r}"
            self.answers[said["id"]] = number, said["input"], said["output"]
        self.again(number, said)


class ShieldReferee(Referee):
    """Derives a shield's decisions again, and counts who was accepted."""

    def __init__(self, store, stream, plan):
        super().__init__(store, stream)
        read = read_plan(plan)
        self.shield = Shield(synthesize(read))
        self.kappa, self.horizon = Fraction(str(plan["kappa"])), read.horizon
        self.groups = list(plan["groups"])
        self.labelled = plan["property"] == "equal_opportunity"
        self.who = {}
        self.decided = []
        self.seen = {group: [0, 0] for group in self.groups}
        self.ends = []
        self.interventions = 0

    def begin(self, said):
        assert said["kind"] == "shield"
        assert said["digest"] == self.shield.policy_digest

    def again(self, number, said):
        assert said["before"] == _json(self.shield.counts()), f"{self.stream}: counters before entry {number}"
        asked, output = said["input"], said["output"]
        if asked["op"] == "label":
            self.shield.observe(asked["id"], asked["label"])
            return
        assert said["id"] == asked["id"]
        made = self.shield.decide(asked["group"], asked["recommendation"], id=asked["id"] if self.labelled else None)
        derived = {"decision": made.decision, "intervened": made.intervened, "reason": made.reason.value}
        assert {name: output[name] for name in derived} == derived, f"{self.stream}: decision {number} was another one"
        assert output["certificate"] == _json(self.shield.certificate().to_dict()), f"{self.stream}: entry {number}"
        self.interventions += made.intervened
        assert asked["id"] not in self.who, f"{self.stream}: {asked['id']!r} was decided on twice"
        self.who[asked["id"]] = asked["group"], output["decision"]
        self.decided.append(self.who[asked["id"]])
        self.seen[asked["group"]][0] += 1
        self.seen[asked["group"]][1] += output["decision"]
        if not self.labelled and len(self.decided) % self.horizon == 0:
            rates = [Fraction(accepted, max(1, n)) for n, accepted in self.seen.values()]
            self.ends.append(max(rates) - min(rates) if all(n for n, _ in self.seen.values()) else Fraction(0))

    def same_state(self, state):
        assert state.get("shield", state) == _json(self.shield.state()), (
            f"{self.stream}: the state is not that of the log"
        )

    def guaranteed(self):
        """The bias at the end of every period is within the bound."""
        worst = max(self.ends, default=Fraction(0))
        assert worst <= self.kappa, f"{self.stream}: a period ended with a bias of {worst}"

    def compare(self, told, labels=()):
        """What clients were told is what the log says."""
        met = Counter()
        answers = defaultdict(set)
        for one in told:
            name = one.asked["id"]
            logged = self.answers.get(name)
            if one.status == 200:
                assert logged is not None, f"{self.stream}: an acknowledged decision is lost: {one}"
                number, asked, output = logged
                assert {**asked, "op": "decide"} == {**one.asked, "op": "decide"}, (
                    f"{self.stream}: {one}, entry {number}"
                )
                for entry in ("decision", "intervened", "reason", "certificate"):
                    assert one.said[entry] == output[entry], f"{self.stream}: {one} contradicts entry {number}"
                assert one.said.get("number", number) == number
                assert one.headers.get("x-evenhand-guarded", "true") == "true"
                answers[name].add((one.said["decision"], one.said["reason"], number))
                met["acknowledged"] += 1
            else:
                assert one.status == 409, f"{self.stream}: {one}"
                assert one.said["error"]["code"] == "repeated", f"{self.stream}: {one}"
                # Someone else had asked something else under this id, and that is what was decided.
                assert logged is not None
                assert logged[1]["recommendation"] != one.asked["recommendation"], f"{self.stream}: {one}"
                met["refused"] += 1
        for name, given in answers.items():
            assert len(given) == 1, f"{self.stream}: the id {name!r} has several answers: {given}"
        met["ids"] = len(answers)
        for one in labels:
            if one.status == 200:
                _, asked, _ = self.answers[f"{one.asked['id']}\tlabel"]
                assert asked["label"] == one.asked["label"], f"{self.stream}: {one}"
                met["labels"] += 1
            else:
                assert one.status in (404, 409, 422), one
                assert one.said["error"]["code"] in ("contradiction", "unknown-id", "label"), one
                met["labels refused"] += 1
        return met


class GuardReferee(Referee):
    """Derives what a guard asked for again, and judges deadlines by the items that were delivered."""

    def __init__(self, store, stream, configuration):
        super().__init__(store, stream)
        self.configuration = configuration
        mode = configuration.get("guard", {}).get("mode", "before")
        self.enforcer = Enforcer({k: v for k, v in configuration.items() if k != "generator"}, mode=mode)
        self.requirements = {one.name: one for one in self.enforcer.configuration.requirements}
        self.open = {}
        self.prompts = {}
        self.items = {}
        self.delivered = []
        self.slots = {name: {} for name in self.enforcer.state()}
        self.broken_assumptions = {name: set() for name in self.enforcer.state()}
        self.abandoned = 0

    def begin(self, said):
        assert said["kind"] == "guard"

    def again(self, number, said):
        asked, output = said["input"], said["output"]
        assert said["before"] == self.enforcer.items_until_due(), f"{self.stream}: counters before entry {number}"
        self.enforcer.random.seed(number)
        what = asked["op"]
        if what == "admit":
            admission = self.enforcer.admit(asked["conditions"], fixed=asked.get("fixed", ()))
            assert output["admission"] == _json(admission.to_dict()), f"{self.stream}: admission {number} was another"
            self.open[number] = admission, asked["replica"], asked.get("call")
            self.prompts[number] = asked.get("note", {}).get("prompt_sha256", "")
        elif what in ("complete", "fail"):
            chosen = next(
                one
                for one, (_, _, call) in self.open.items()
                if (one == asked["admission"] if "admission" in asked else call == asked["call"])
            )
            self.items[chosen] = asked.get("note", {}).get("item", {}).get("sha256")
            outcome = self._judged(chosen, asked.get("values") if what == "complete" else None, asked.get("final"))
            assert output["outcome"] == _described(outcome), f"{self.stream}: outcome {number} was another one"
        elif what == "abandon":
            chosen_ones = [
                one
                for one, (_, replica, call) in self.open.items()
                if (call == asked["call"] if "call" in asked else replica == asked["replica"])
            ]
            found = {str(one): _described(self._judged(one, None, True)) for one in chosen_ones}
            self.abandoned += len(found)
            assert output["abandoned"] == found, f"{self.stream}: entry {number}"
        else:
            assert (what, output) == ("record", {}), f"{self.stream}: entry {number}"

    def _judged(self, number, values, final):
        admission, replica, call = self.open[number]
        promised = dict(admission.must)
        while True:
            outcome = self.enforcer.complete(admission, values)
            if outcome.admission is None:
                del self.open[number]
                break
            admission = outcome.admission
            self.open[number] = admission, replica, call
            if not final:
                return outcome
        if values is not None:
            self.delivered.append((number, values))
        for name in admission.counts:
            slot = outcome.slots.get(name, admission.slots.get(name))
            if slot is None:
                continue
            (group,) = self.requirements[name].groups
            value = None if values is None else values.get(group)
            self.slots[name][slot] = value
            must = promised.get(group) or dict(admission.must).get(group)
            if must and value not in must:
                self.broken_assumptions[name].add(slot)
        return outcome

    def same_state(self, state):
        assert state["rows"] == self.enforcer.state(), f"{self.stream}: the state is not that of the log"
        assert [one[0] for one in state["open"]] == list(self.open)
        assert [one[2] for one in state["open"]] == [_json(one.to_dict()) for one, _, _ in self.open.values()]

    def missed(self):
        """By specification, deadlines that the items missed: value, and the slots between which it did not appear."""
        found = {}
        for name, one in self.requirements.items():
            found[name] = []
            # Behind an item that is under way nothing is known.
            under_way = [a.slots[name] for a, _, _ in self.open.values() if name in a.slots]
            known = [
                (slot, value)
                for slot, value in sorted(self.slots[name].items())
                if value is not None and slot < min(under_way, default=slot + 1)
            ]
            for value, most in zip(one.values[0], one.repeated or (), strict=True):
                since, start = 0, 0
                for slot, shown in known:
                    since += 1
                    if shown == value:
                        since, start = 0, slot
                    elif since % most == 0:
                        found[name].append((value, start, slot))
        return found

    def guaranteed(self):
        """Every deadline that was missed follows from an item that did not show what was asked for; how many were."""
        count = 0
        for name, missed in self.missed().items():
            for value, start, end in missed:
                blamed = [slot for slot in self.broken_assumptions[name] if start < slot <= end]
                assert blamed, f"{self.stream}, {name}: {value!r} did not appear from slot {start} to {end}: no excuse"
                count += 1
            # The enforcer said so itself, of every one.
            assert self.enforcer.counts[name]["missed"] >= len(missed), (name, missed)
        return count

    def compare(self, told):
        """Every picture that a client got is in the log, and shows what the log says."""
        met = Counter()
        by_prompt = defaultdict(list)
        for number, values in self.delivered:
            by_prompt[self.prompts[number]].append((self.items[number], values))
            assert len(by_prompt[self.prompts[number]]) <= MOST_PICTURES, f"more than were asked for: {number}"
        for one in told:
            if one.status != 200:
                assert one.status in (400, 429, 502, 503, 504), one  # 400: the generator was told to fail so
                met["none"] += 1
                continue
            assert one.values, f"an answer without a picture: {one}"
            if "leader" not in one.asked["prompt"]:
                met["does not count"] += 1
                continue
            said = one.headers.get("x-evenhand-guarded")
            assert said in ("true", "false"), one
            if said == "false":
                met["unguarded"] += 1
                continue
            logged = by_prompt[hashlib.sha256(one.asked["prompt"].encode()).hexdigest()]
            assert logged, f"{self.stream}: a delivered item is lost: {one.asked}"
            shown = {group: one.values.get(group) for group in logged[0][1]}
            assert (one.item, shown) in logged, f"{self.stream}: {one.asked} shows {one.values}, the log {logged}"
            met["delivered"] += 1
        return met


def _described(outcome):
    admission = None if outcome.admission is None else _json(outcome.admission.to_dict())
    said = {"status": outcome.status, "admission": admission, "reason": outcome.reason}
    return {**said, "slots": dict(outcome.slots)}


def _json(value):
    return json.loads(json.dumps(value))


def watched_batches(store, asked, told):
    """Check a monitor of events against what clients asked and were told.

    Every batch that was answered is in the log once, with that answer; a monitor that is given the batches themselves,
    in the order of the log, says the same of each, and ends where the store's does.
    """
    wanted = {one["batch"]: one["events"] for one in asked}
    fresh, outputs = Monitor(HIRED), {}
    fresh.seed = 0
    for _, number, _, body, *_ in store.entries("hired"):
        found = json.loads(body)
        if number and found["input"]["op"] == "events":
            assert found["id"] not in outputs
            made = fresh.add(wanted[found["id"]])
            outputs[found["id"]] = found["output"]
            assert found["output"]["decisions"] == fresh.decisions
            assert len(found["output"]["alarms"]) == len(made.alarms)
    for one in told:
        assert one.status == 200, one.said
        assert one.said["decisions"] == outputs[one.asked["batch"]]["decisions"]
        assert len(one.said["alarms"]) == len(outputs[one.asked["batch"]]["alarms"])
    database = Database(store.url)
    try:
        for replay in replay_stored_logs(database).replays:
            assert replay.all_agree, (replay.stream, replay.difference)
        machine = MonitorMachine(read_monitor_config(HIRED))
        with database.reading() as connection:
            follow_stream(connection, "hired", LoadedMachine(machine))
        assert monitor_to_dict(machine.monitor) == monitor_to_dict(fresh)
        with database.reading() as connection:
            lent = MonitorMachine(read_monitor_config(json.loads(store.entries("lent")[0][3])["configuration"]))
            follow_stream(connection, "lent", LoadedMachine(lent))
    finally:
        database.close()
    decided = [number for _, number, _, body, *_ in store.entries("loans") if '"op":"decide"' in body]
    assert lent.monitor.decisions == sum(number <= lent.position for number in decided)
    return {"batches": len(outputs), "acknowledged": len(told), "alarms": len(fresh.alarms), "lent": len(decided)}
