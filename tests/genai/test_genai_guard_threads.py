"""A guard in several threads, with judges, generators and classifiers that do whatever they like, in any order."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest
from genai_reference import misses, read_config
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from evenhand.errors import FetchError, ModelError
from evenhand.genai import Enforcer, GenerationConfig, Guard, GuardedAnswer, Item
from support import scaled

PATIENCE = 30
"""Seconds after which a thread is taken to hang."""


def configured(specifications: list[dict[str, Any]], *conditions: str, **simulation: int) -> GenerationConfig:
    return read_config(
        {"age": ["child", "adult", "elderly"], "gender": ["woman", "man"]},
        *specifications,
        conditions=[{"name": name} for name in conditions],
        simulation=simulation,
    )


AGE = {"condition": "leader", "group": "age", "repeated": [3, 4, 5]}
CONFIGURATIONS = [
    configured([AGE], "leader", retries=0),
    configured([AGE], "leader", retries=2, slack=0),
    configured([{**AGE, "repeated": [5, 6, 7]}], "leader", retries=1, slack=1),
    configured([AGE, {"condition": "leader", "group": "gender", "repeated": 3}], "leader", retries=1),
    configured(
        [{"condition": name, "group": "gender", "repeated": 3} for name in ("leader", "poor")],
        "leader",
        "poor",
        retries=1,
    ),
    configured([{"condition": "leader", "paired": ["age", "gender"], "repeated": 7}], "leader", retries=1),
]


class Stop(BaseException):
    """What takes a thread down in the middle of its work."""


class Desk:
    """One request in its own thread, which waits before every item until it is told what to do."""

    def __init__(self, guard: Guard, prompt: str, desks: threading.local) -> None:
        self.conditions = json.loads(prompt)["conditions"]
        self.said: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.told: queue.Queue[Callable[[str], Item]] = queue.Queue()
        self.sent = ""
        self.answer: GuardedAnswer | None = None
        self.raised: BaseException | None = None
        self.last: Item | None = None
        self._thread = threading.Thread(target=self._run, args=(guard, prompt, desks), daemon=True)
        self._thread.start()
        self.wait()

    def _run(self, guard: Guard, prompt: str, desks: threading.local) -> None:
        desks.mine = self
        try:
            self.said.put(("answer", guard.answer(prompt)))
        except BaseException as error:
            self.said.put(("raised", error))

    def generate(self, prompt: str) -> Item:
        self.said.put(("asks", prompt))
        self.last = None
        item = self.told.get(timeout=PATIENCE)(prompt)
        self.last = item if isinstance(item, Item) else None
        return item

    def wait(self) -> None:
        what, said = self.said.get(timeout=PATIENCE)
        if what == "asks":
            self.sent = said
            return
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if what == "answer":
            self.answer = said
        else:
            self.raised = said

    @property
    def waiting(self) -> bool:
        return self.answer is None and self.raised is None


class Generators:
    """The generator: every thread's own desk."""

    def __init__(self) -> None:
        self.desks = threading.local()

    def generate(self, prompt: str) -> Item:
        return self.desks.mine.generate(prompt)


class Classifier:
    """Answers with what an item's own text says that it answers."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def classify(self, item: Item) -> dict[str, str | None]:
        act = json.loads(item.text)["act"]
        if act == "fails":
            raise FetchError("nobody looks")
        if act == "breaks":
            raise ZeroDivisionError("a fault in it")
        if act == "stops":
            raise Stop
        self.seen.add(item.data)
        if act == "nonsense":
            return 3
        return json.loads(item.text)["values"]


class Judge:
    """Answers with what a prompt's own text says that it answers."""

    def conditions(self, prompt: str) -> frozenset[str]:
        told = json.loads(prompt)
        if told["judge"] == "fails":
            raise ModelError("nobody knows")
        if told["judge"] == "stops":
            raise Stop
        return frozenset(["nobody"] if told["judge"] == "lies" else told["conditions"])

    def fixed_groups(self, prompt: str) -> frozenset[str]:
        told = json.loads(prompt)
        if told["judge"] == "nonsense":
            return None
        return frozenset(told["fixed"])


def with_must(prompt: str, must: Mapping[str, tuple[str, ...]]) -> str:
    return json.dumps({**json.loads(prompt), "must": must}) if must else prompt


class Guarded(RuleBasedStateMachine):
    """Requests begin and end in any order, one thread each; what they meet is drawn."""

    @initialize(
        configuration=st.sampled_from(CONFIGURATIONS),
        mode=st.sampled_from(["before", "after"]),
        unsure=st.sampled_from(["refuse", "pass"]),
    )
    def start(self, configuration: GenerationConfig, mode: Any, unsure: Any) -> None:
        self.configuration, self.unsure, self.mode = configuration, unsure, mode
        self.enforcer = Enforcer(configuration, mode=mode)
        self.generators, self.classifier = Generators(), Classifier()
        self.guard = Guard(
            self.enforcer,
            self.generators,
            self.classifier,
            Judge(),
            instruct=with_must,
            groups=configuration.values,
            when_unsure=unsure,
        )
        self.desks: list[Desk] = []
        self.numbers = count()

    # ---- what happens

    @precondition(lambda self: sum(desk.waiting for desk in self.desks) < 4)
    @rule(
        data=st.data(),
        fixed=st.sampled_from([[], [], [], ["age"], ["gender"], ["age", "gender"]]),
        judge=st.sampled_from(["knows", "knows", "knows", "knows", "fails", "stops", "lies", "nonsense"]),
    )
    def begin(self, data: st.DataObject, fixed: list[str], judge: str) -> None:
        names = [condition.name for condition in self.configuration.conditions]
        conditions = data.draw(st.lists(st.sampled_from(names), unique=True))
        prompt = json.dumps({"conditions": conditions, "fixed": fixed, "judge": judge})
        desk = Desk(self.guard, prompt, self.generators.desks)
        self.desks.append(desk)
        self.check(desk, stops=judge == "stops")

    @precondition(lambda self: any(desk.waiting for desk in self.desks))
    @rule(
        data=st.data(),
        act=st.sampled_from(
            ["obeys"] * 3 + ["shows"] * 3 + ["looks away", "none", "fails", "stops", "stops", "no item"]
        ),
    )
    def make(self, data: st.DataObject, act: str) -> None:
        desk = data.draw(st.sampled_from([desk for desk in self.desks if desk.waiting]))
        must = json.loads(desk.sent).get("must", {})
        values: dict[str, Any] = {
            group: data.draw(st.sampled_from(must[group] if act == "obeys" and group in must else names))
            for group, names in self.configuration.values.items()
        }
        look = "honest"
        if act == "none":
            for group in data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, unique=True)):
                values[group] = data.draw(st.sampled_from([None, "nobody", 7, ""]))
        if act == "looks away":
            look = data.draw(st.sampled_from(["fails", "breaks", "stops", "nonsense"]))
        self.tell(desk, act, values, look)

    def tell(self, desk: Desk, act: str, values: Mapping[str, Any], look: str) -> None:
        text = json.dumps({"number": next(self.numbers), "values": values, "act": look})

        def made(prompt: str) -> Item:
            if act == "fails":
                raise FetchError("nobody is there")
            if act == "stops":
                raise Stop
            return "a text" if act == "no item" else Item.of_text(text)

        desk.told.put(made)
        desk.wait()
        self.check(desk, stops="stops" in (act, look))

    # ---- what must hold

    def check(self, desk: Desk, *, stops: bool) -> None:
        """One request, as soon as it is over."""
        if desk.raised is not None:
            assert stops, "only what stops a thread comes out of an answer"
            assert isinstance(desk.raised, Stop)
        if desk.answer is None:
            return
        answer = desk.answer
        if answer.status == "refused":
            assert answer.item is None
        if answer.status in ("ok", "unguarded"):
            assert answer.item is not None
        if answer.status != "ok":
            assert answer.reason
        if self.unsure == "refuse":
            assert answer.status != "unguarded"
        assert answer.item is None or answer.item is desk.last, "the item that was decided about, and no other"
        counted = any(row["condition"] in answer.conditions for row in self.rows(answer))
        if answer.item is not None and counted and answer.item.data not in self.classifier.seen:
            assert self.unsure == "pass"
            assert answer.status != "ok", "nothing is released unseen as if it had been seen"
        assert answer.disclosure.isascii()
        assert answer.disclosure.isprintable()

    def rows(self, answer: GuardedAnswer) -> list[dict[str, Any]]:
        """The requirements that an answer counts for."""
        return [
            {"condition": one.condition, "name": one.name}
            for one in self.configuration.requirements
            if one.condition in answer.conditions and not set(one.groups) & answer.fixed
        ]

    @invariant()
    def what_is_not_under_way_is_complete(self) -> None:
        if not hasattr(self, "desks"):
            return
        waiting = [desk for desk in self.desks if desk.waiting]
        for name, row in self.enforcer._rows.items():
            assert row.pending_slots <= len(waiting), name
            if not waiting:
                assert row.pending_slots == 0, name

    def teardown(self) -> None:
        if not hasattr(self, "desks"):
            return
        while waiting := [desk for desk in self.desks if desk.waiting]:
            must = json.loads(waiting[0].sent).get("must", {})
            values = {group: must.get(group, names)[0] for group, names in self.configuration.values.items()}
            self.tell(waiting[0], "obeys", values, "honest")
        self.what_is_not_under_way_is_complete()
        broken = sum(
            counts[what] for counts in self.enforcer.counts.values() for what in ("disobeyed", "unrecognised", "failed")
        )
        for requirement in self.configuration.requirements:
            shown: dict[int, int] = {}
            for desk in self.desks:
                if desk.answer is None or requirement.name not in desk.answer.slots:
                    continue
                slot = desk.answer.slots[requirement.name]
                assert slot not in shown, "two items in one slot"
                value = tuple(str(desk.answer.values[group]) for group in requirement.groups)
                shown[slot] = requirement.combinations.index(value) + 1
            missed = misses([shown[slot] for slot in sorted(shown)], requirement.repeated or ())
            reported = self.enforcer.counts[requirement.name]["missed"]
            assert bool(missed) == bool(reported), (missed, reported)
            assert broken or not missed, "a deadline was missed, and every assumption held"


Guarded.TestCase.settings = settings(max_examples=scaled(60), stateful_step_count=30, deadline=None)
TestGuarded = pytest.mark.filterwarnings("error")(Guarded.TestCase)


def test_threads_that_run_freely_share_one_enforcer() -> None:
    """No order is prescribed here: eight threads answer at once, as they do behind a service."""
    configuration = CONFIGURATIONS[3]
    enforcer = Enforcer(configuration)
    numbers = count()

    class Free:
        def generate(self, prompt: str) -> Item:
            number = next(numbers)
            if number % 13 == 5:
                raise FetchError("busy")
            must = json.loads(prompt).get("must", {})
            values = {group: must.get(group, names)[0] for group, names in configuration.values.items()}
            return Item.of_text(json.dumps({"number": number, "values": values, "act": "honest"}))

    guard = Guard(enforcer, Free(), Classifier(), Judge(), groups=configuration.values, instruct=with_must)
    prompt = json.dumps({"conditions": ["leader"], "fixed": [], "judge": "knows"})
    answers: queue.Queue[GuardedAnswer] = queue.Queue()

    def work() -> None:
        for _ in range(25):
            answers.put(guard.answer(prompt))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    found = [answers.get_nowait() for _ in range(200)]
    for requirement in configuration.requirements:
        items = [one for one in found if requirement.name in one.slots]
        slots = [one.slots[requirement.name] for one in items]
        assert len(set(slots)) == len(slots)
        group, names = requirement.groups[0], requirement.values[0]
        items.sort(key=lambda one: one.slots[requirement.name])
        shown = [names.index(str(one.values[group])) + 1 for one in items]
        counts = enforcer.counts[requirement.name]
        assert counts["missed"] == len(misses(shown, requirement.repeated or ())) == 0 or counts["failed"]
    assert all(row.pending_slots == 0 for row in enforcer._rows.values())
