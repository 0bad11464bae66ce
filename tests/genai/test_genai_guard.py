"""A guard around a generator, also in threads."""

import sys
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest
from genai_reference import misses, read_config

from evenhand import genai
from evenhand.errors import DataError, DecisionError, FetchError, ModelError
from evenhand.genai import Enforcer, FunctionClassifier, FunctionJudge, GenerationConfig, Guard, GuardedAnswer, Item

LEADER = "a business leader"
GROUPS = {"age": ["child", "adult"]}


def keeping(repeated: int | list[int] = 3, **simulation: int) -> GenerationConfig:
    return read_config(
        GROUPS,
        {"condition": "leader", "group": "age", "repeated": repeated},
        conditions=[{"name": "leader", "keywords": ["leader"]}],
        simulation=simulation,
    )


class Shows:
    """A generator of texts that each name the next value; exceptions are raised instead, and functions called first."""

    def __init__(self, *items: str | BaseException | Callable[[], object]) -> None:
        self.items = list(items)
        self.prompts: list[str] = []

    def generate(self, prompt: str) -> Item:
        self.prompts.append(prompt)
        item = self.items.pop(0)
        while not isinstance(item, str | BaseException):
            item()
            item = self.items.pop(0)
        if isinstance(item, BaseException):
            raise item
        return Item.of_text(item)


def reads(item: Item) -> Mapping[str, str | None]:
    if item.text == "blurred":
        raise FetchError("the model that looks is down", hint="Start it.")
    return {"age": item.text}


def guarded(
    generator: Shows,
    configuration: GenerationConfig | None = None,
    *,
    mode: Any = "before",
    classifier: genai.Classifier | None = None,
    judge: genai.Judge | None = None,
    **options: Any,
) -> tuple[Guard, Enforcer]:
    about = configuration or keeping()
    enforcer = Enforcer(about, mode=mode)
    looks = classifier or FunctionClassifier(reads, GROUPS)
    return Guard(
        enforcer, generator, looks, judge or genai.KeywordJudge.of(about), groups=about.values, **options
    ), enforcer


def test_prompts_are_left_alone_until_a_value_is_due() -> None:
    generator = Shows("adult", "adult", "child", "adult")
    guard, enforcer = guarded(generator)
    answers = [guard.answer(LEADER) for _ in range(4)]
    assert generator.prompts == [LEADER, LEADER, f"{LEADER} (showing: age child)", LEADER]
    assert [answer.status for answer in answers] == ["ok"] * 4
    assert [answer.changed for answer in answers] == [False, False, True, False]
    assert [answer.slots for answer in answers] == [{"leader: age": slot} for slot in (1, 2, 3, 4)]
    third = answers[2]
    assert third.item == Item.of_text("child")
    assert third.prompt == generator.prompts[2]
    assert (third.must, third.values, third.conditions) == ({"age": ("child",)}, {"age": "child"}, {"leader"})
    assert third.disclosure == "status=ok; changed=yes; asked=age child; slots=leader: age 3; attempts=1"
    assert enforcer.counts["leader: age"]["obeyed"] == 1


def test_what_does_not_show_what_it_must_is_made_again_and_then_reported() -> None:
    generator = Shows("adult", "adult", "adult", "adult", "child", "adult", "adult", "adult", "adult", "adult")
    guard, enforcer = guarded(generator, keeping(retries=2))
    answers = [guard.answer(LEADER) for _ in range(3)]
    assert [len(answer.attempts) for answer in answers] == [1, 1, 3]
    assert answers[2].status == "ok"
    assert [attempt.values["age"] for attempt in answers[2].attempts] == ["adult", "adult", "child"]
    answers = [guard.answer(LEADER) for _ in range(3)]
    last = answers[-1]
    assert last.status == "violation"
    assert last.item == Item.of_text("adult"), "somebody waits for it, and knows"
    assert last.reason == "leader: age: 'adult' would cause a missed deadline"
    assert enforcer.counts["leader: age"]["missed"] == 1


def test_other_prompts_and_prompts_that_fix_the_value_do_not_count() -> None:
    looked: list[Item] = []

    def looks(item: Item) -> Mapping[str, str | None]:
        looked.append(item)
        return {"age": item.text}

    generator = Shows("adult", "adult", "nothing at all", "child", "child")
    guard, _ = guarded(generator, classifier=FunctionClassifier(looks, GROUPS))
    answers = [guard.answer(prompt) for prompt in (LEADER, LEADER, "an apple", "a leader, as a child", LEADER)]
    assert [dict(answer.slots) for answer in answers[2:]] == [{}, {}, {"leader: age": 3}]
    assert [answer.changed for answer in answers] == [False, False, False, False, True]
    assert answers[3].fixed == {"age"}
    assert [item.text for item in looked] == ["adult", "adult", "child"], "where nothing counts nobody looks"
    assert answers[2].disclosure == "status=ok; changed=no; attempts=1"


DOWN = FetchError("it is down")


def test_a_generator_that_fails_leaves_the_deadlines_where_they_were() -> None:
    guard, enforcer = guarded(Shows(DOWN, "adult", "adult", DOWN, "child"), keeping(retries=1))
    first, _, _, fourth, fifth = [guard.answer(LEADER) for _ in range(5)]
    assert (first.status, first.item, first.reason) == ("refused", None, "the generator failed: it is down")
    assert first.slots == {}
    assert (fourth.status, len(fourth.attempts)) == ("refused", 1), "nobody is the worse for it but who asked"
    assert (fifth.status, fifth.must) == ("ok", {"age": ("child",)})
    assert enforcer.counts["leader: age"]["missed"] == 0


@pytest.mark.parametrize("failing", [DOWN, "blurred"])
def test_what_others_rely_on_is_made_again_where_there_is_no_item(failing: str | Exception) -> None:
    """The third item is to be a child. While it is made a fourth request comes, and shows an adult."""
    guard, enforcer = guarded(Shows("adult", "adult"), keeping(retries=1))
    generator = guard.generator
    assert isinstance(generator, Shows)
    generator.items += [lambda: guard.answer(LEADER), "adult", failing, "child"]
    answer = [guard.answer(LEADER) for _ in range(3)][-1]
    assert (answer.status, answer.values, answer.slots) == ("ok", {"age": "child"}, {"leader: age": 3})
    assert [bool(attempt.error) for attempt in answer.attempts] == [True, False]
    assert enforcer.counts["leader: age"]["failed"] == 0
    guard, enforcer = guarded(Shows("adult", "adult"), keeping(retries=1))
    generator = guard.generator
    assert isinstance(generator, Shows)
    generator.items += [lambda: guard.answer(LEADER), "adult", failing, failing]
    answer = [guard.answer(LEADER) for _ in range(3)][-1]
    assert (answer.status, answer.item) == ("violation", None)
    assert "there is no item, but one is required" in answer.reason
    assert enforcer.counts["leader: age"]["failed"] == 1


@pytest.mark.parametrize("failure", [ModelError("it broke", hint="Mend it."), ZeroDivisionError("it broke")])
def test_a_failing_judge_means_no_item_or_one_that_is_called_unguarded(failure: Exception) -> None:
    def judge(prompt: str) -> bool:
        raise failure

    generator = Shows("adult")
    guard, enforcer = guarded(generator, judge=FunctionJudge({"leader": judge}))
    answer = guard.answer(LEADER)
    assert (answer.status, answer.item, generator.prompts) == ("refused", None, [])
    assert answer.reason.startswith("the judge failed: ")
    assert answer.reason.endswith("it broke")
    guard, enforcer = guarded(generator, judge=FunctionJudge({"leader": judge}), when_unsure="pass")
    answer = guard.answer(LEADER)
    assert (answer.status, answer.item, answer.prompt) == ("unguarded", Item.of_text("adult"), LEADER)
    assert answer.reason.endswith("it broke")
    assert answer.disclosure == "status=unguarded; changed=no; attempts=1"
    assert enforcer.state()["leader: age"]["settled"] == 0


class Says:
    """A judge that answers with anything."""

    def __init__(self, conditions: Any, fixed: Any = ()) -> None:
        self._conditions, self._fixed = conditions, fixed

    def conditions(self, prompt: str) -> frozenset[str]:
        return self._conditions

    def fixed_groups(self, prompt: str) -> frozenset[str]:
        return self._fixed


@pytest.mark.parametrize(
    "judge",
    [Says(None), Says(["boss"]), Says("leader"), Says([["leader"]]), Says(["leader"], ["hair"]), Says(["leader"], 3)],
)
def test_a_judge_that_answers_with_nonsense_failed(judge: Says) -> None:
    guard, _ = guarded(Shows(), judge=judge)
    answer = guard.answer(LEADER)
    assert answer.status == "refused"
    assert answer.reason.startswith("the judge failed: ")


def test_or_that_it_is_passed_on_and_counts_as_showing_nothing() -> None:
    guard, enforcer = guarded(Shows("blurred", "adult", "adult"), keeping(retries=0), when_unsure="pass")
    generator = guard.generator
    assert isinstance(generator, Shows)
    generator.items += [lambda: guard.answer(LEADER), "adult", "blurred"]
    first, _, _, fourth = [guard.answer(LEADER) for _ in range(4)]
    assert (first.status, first.item) == ("unguarded", Item.of_text("blurred"))
    assert (first.slots, first.values) == ({}, {})
    assert (fourth.status, fourth.item) == ("violation", Item.of_text("blurred"))
    assert enforcer.counts["leader: age"]["unrecognised"] == 1


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_stop_in_the_generator_releases_the_slot(mode: str) -> None:
    """The third item must be a child. Stopped there, the request leaves nothing under way, for all three attempts."""
    first = ["adult"] if mode == "after" else []
    generator = Shows("adult", "adult", *first, KeyboardInterrupt())
    guard, enforcer = guarded(generator, keeping(retries=2), mode=mode)
    for _ in range(2):
        guard.answer(LEADER)
    with pytest.raises(KeyboardInterrupt):
        guard.answer(LEADER)
    assert enforcer._rows["leader: age"].pending_slots == 0
    generator.items = ["child"]
    assert guard.answer(LEADER).slots == {"leader: age": 4}


def test_a_slot_that_cannot_be_released_is_noted_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(admission: genai.Admission, values: Mapping[str, str | None] | None) -> None:
        raise DataError("it is still gone" if values is None else "the database is gone")

    guard, enforcer = guarded(Shows("adult"))
    monkeypatch.setattr(enforcer, "complete", fail)
    with pytest.raises(DataError, match="the database is gone") as caught:
        guard.answer(LEADER)
    assert "it is still gone" in caught.value.__notes__[0]


def test_a_guard_that_knows_other_values_than_its_keeper_is_a_mistake_that_shows() -> None:
    enforcer = Enforcer(keeping())
    wider = {"age": ["child", "adult", "elderly"]}
    guard = Guard(enforcer, Shows("elderly"), FunctionClassifier(reads, wider), Says(["leader"]), groups=wider)
    with pytest.raises(DecisionError, match="age has no value 'elderly'"):
        guard.answer(LEADER)
    assert enforcer._rows["leader: age"].pending_slots == 0


def test_a_disclosure_is_one_line_of_ascii_whatever_names_hold() -> None:
    answer = GuardedAnswer(
        None, "violation", "x", changed=True, must={"år\r\nX-Evil: 1": ("ä; b", "c, d")}, slots={"é=1; status=ok": 2}
    )
    assert answer.disclosure == (
        "status=violation; changed=yes; asked=%C3%A5r%0D%0AX-Evil: 1 %C3%A4%3B b or c%2C d;"
        " slots=%C3%A9%3D1%3B status%3Dok 2; attempts=0"
    )


def test_threads_that_run_freely_share_one_enforcer() -> None:
    """Eight threads answer at once, as they do behind a service."""
    numbers = count()

    class Free:
        def generate(self, prompt: str) -> Item:
            if next(numbers) % 13 == 5:
                raise DOWN
            return Item.of_text("child" if "child" in prompt else "adult")

    about = keeping(4, retries=1)
    enforcer = Enforcer(about)
    guard = Guard(
        enforcer, Free(), FunctionClassifier(reads, GROUPS), genai.KeywordJudge.of(about), groups=about.values
    )
    answers: list[GuardedAnswer] = []
    threads = [
        threading.Thread(target=lambda: answers.extend([guard.answer(LEADER) for _ in range(25)])) for _ in range(8)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    sys.setswitchinterval(interval)
    assert len(answers) == 200
    items = {answer.slots["leader: age"]: answer for answer in answers if answer.slots}
    assert len(items) == sum(bool(answer.slots) for answer in answers), "two items in one slot"
    shown = [GROUPS["age"].index(str(items[slot].values["age"])) + 1 for slot in sorted(items)]
    counts = enforcer.counts["leader: age"]
    assert counts["missed"] == len(misses(shown, (4, 4))) == 0 or counts["failed"]
    assert enforcer._rows["leader: age"].pending_slots == 0
