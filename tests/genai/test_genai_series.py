"""Several items for one prompt, and several candidates for one item: decided as one after the other, in less time."""

import asyncio
import gc
import itertools
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from genai_reference import misses, read_config
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.core.coroutines import blocks, run_blocking
from evenhand.errors import BudgetError, FetchError, OptionError
from evenhand.genai import Enforcer, FunctionClassifier, GenerationConfig, Guard, GuardedAnswer, Item, KeywordJudge
from evenhand.genai.enforcement.guard import AnswerSeries, AttemptLimits
from evenhand.genai.enforcement.supply import Spending
from evenhand.genai.spec.pipeline_config import PriceConfig
from support import scaled

LEADER = "a business leader"


def keeping(repeated: Sequence[int], retries: int = 2) -> GenerationConfig:
    demand = {"condition": "leader", "group": "age", "repeated": list(repeated)}
    conditions = [{"name": "leader", "keywords": ["leader"]}]
    groups = {"age": [f"v{k}" for k in range(len(repeated))]}
    return read_config(groups, demand, conditions=conditions, simulation={"retries": retries})


class Scripted:
    """What comes depends on the words, and on how often they were sent before: ``plain`` values, or obedience.

    Args:
        plain: values of items for the prompt as it is; "-": nothing recognisable, "!": no item.
        obeys: whether items show what their prompt asks for, which then is the clause's last value.
    """

    def __init__(self, plain: Sequence[str], obeys: Sequence[bool]) -> None:
        self._plain, self._obeys = plain, obeys
        self._made: dict[str, int] = defaultdict(int)
        self.calls: list[tuple[str, int]] = []

    def _next(self, prompt: str) -> str:
        k = self._made[prompt]
        self._made[prompt] += 1
        if prompt == LEADER:
            return self._plain[k % len(self._plain)]
        return prompt.rpartition(" ")[2].rstrip(")") if self._obeys[k % len(self._obeys)] else self._plain[0]

    def generate(self, prompt: str) -> Item:
        self.calls.append((prompt, 1))
        return self._item(prompt)

    def _item(self, prompt: str) -> Item:
        shown = self._next(prompt)
        if shown == "!":
            raise FetchError("it is down")
        return Item.of_text(shown)


class ScriptedSeveral(Scripted):
    """The same, several at once."""

    def generate_several(self, prompt: str, count: int) -> list[Item]:
        self.calls.append((prompt, count))
        return [self._item(prompt) for _ in range(count)]


def guard_of(about: GenerationConfig, generator: Any, mode: Any, candidates: int = 1) -> tuple[Guard, Enforcer]:
    enforcer = Enforcer(about, mode=mode, seed=5)
    values = set(about.values["age"])
    looks = FunctionClassifier(lambda item: {"age": item.text if item.text in values else None}, about.values)
    limits = AttemptLimits(candidates, enforcer.retries + 1)
    return Guard(enforcer, generator, looks, KeywordJudge.of(about), groups=about.values, limits=limits), enforcer


def in_loop(guard: Guard, counts: Sequence[int]) -> list[GuardedAnswer]:
    async def ask() -> list[GuardedAnswer]:
        return [one for count in counts for one in await guard.answer_several_async(LEADER, count)]

    return asyncio.run(ask())


def check_equal(
    about: GenerationConfig, make: Callable[[], Scripted], mode: str, counts: Sequence[int], **options: Any
) -> None:
    """Requests for several items come to what as many requests one after the other come to, also in the state."""
    single, one = guard_of(about, make(), mode)
    expected = [single.answer(LEADER) for _ in range(sum(counts))]
    several, other = guard_of(about, make(), mode, **options)
    found = [answer for count in counts for answer in several.answer_several(LEADER, count)]
    assert found == expected
    assert other.state() == one.state()


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("repeated", [(2, 2), (2, 3)])
def test_every_small_case_is_decided_as_one_after_the_other(mode, repeated):
    """All sequences of four items with two values or none, and all ways to obey twice."""
    about = keeping(repeated, retries=1)
    for plain in itertools.product(["v0", "v1", "-"], repeat=4):
        for obeys in itertools.product([True, False], repeat=2):
            check_equal(about, lambda p=plain, o=obeys: ScriptedSeveral(p, o), mode, [4])


SHOWN = st.lists(st.sampled_from(["v0", "v1", "v2", "-"]), min_size=1, max_size=12)
OBEYS = st.lists(st.booleans(), min_size=1, max_size=6)
COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@settings(max_examples=scaled(60), deadline=None)
@given(
    plain=SHOWN,
    obeys=OBEYS,
    counts=COUNTS,
    mode=st.sampled_from(["before", "after"]),
    repeated=st.sampled_from([(3, 3, 3), (3, 4, 9), (5, 6, 6)]),
    candidates=st.integers(1, 4),
)
def test_several_items_and_candidates_are_decided_as_one_after_the_other(
    plain, obeys, counts, mode, repeated, candidates
):
    """Each request asks for its items, and these for their candidates, from what was made for the same words."""
    # One request: what is left over of it in the end is not used, as it is not where each is asked for by itself.
    about, count = keeping(repeated), sum(counts)
    check_equal(about, lambda: Scripted(plain, obeys), mode, [count])
    check_equal(about, lambda: ScriptedSeveral(plain, obeys), mode, [count], candidates=candidates)


@settings(max_examples=scaled(30), deadline=None)
@given(plain=SHOWN, obeys=OBEYS, count=st.integers(1, 8), candidates=st.integers(1, 3))
def test_an_event_loop_decides_the_same(plain, obeys, count, candidates):
    about = keeping((3, 4, 9))
    blocking, one = guard_of(about, ScriptedSeveral(plain, obeys), "before", candidates)
    waiting, other = guard_of(about, Awaited(plain, obeys), "before", candidates)
    assert in_loop(waiting, [count]) == blocking.answer_several(LEADER, count)
    assert other.state() == one.state()


class Awaited(ScriptedSeveral):
    """The same for an event loop."""

    @blocks
    async def generate(self, prompt: str) -> Item:
        return super().generate(prompt)

    @blocks
    async def generate_several(self, prompt: str, count: int) -> list[Item]:
        return super().generate_several(prompt, count)


@settings(max_examples=scaled(40), deadline=None)
@given(
    seed=st.integers(0, 2**20),
    counts=st.lists(st.integers(1, 6), min_size=5, max_size=15),
    mode=st.sampled_from(["before", "after"]),
    repeated=st.sampled_from([(3, 4, 9), (4, 4, 4), (3, 7, 20, 50)]),
    candidates=st.integers(1, 3),
)
def test_no_deadline_is_missed_where_one_of_all_attempts_obeys(seed, counts, mode, repeated, candidates):
    """The longest wait for a value is what was said, however many items and candidates are asked for at once."""
    from random import Random

    chosen = Random(seed)
    # Of three attempts, two disobey: the third has to come.
    scripted = ScriptedSeveral([chosen.choice(["v0", "v0", "v1", "-"]) for _ in range(50)], [False, False, True])
    guard, enforcer = guard_of(keeping(repeated), scripted, mode, candidates)
    answers = [answer for count in counts for answer in guard.answer_several(LEADER, count)]
    shown = [int(value[1:]) + 1 for answer in answers if (value := answer.values["age"]) is not None]
    assert not misses(shown, list(repeated))
    assert enforcer.counts["leader: age"]["missed"] == 0
    assert {answer.status for answer in answers} == {"ok"}


def test_a_series_may_be_dropped_before_its_items_are_taken():
    guard, _ = guard_of(keeping((3, 3)), ScriptedSeveral(["v0"], [True]), "before")
    series = AnswerSeries(guard, LEADER, 4)
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert run_blocking(series.answer()).item is not None
        del series
        gc.collect()
    assert not caught  # a coroutine that is never awaited would warn


def test_what_is_left_alone_is_asked_for_at_once_and_candidates_where_it_is_not():
    generator = ScriptedSeveral(["v0"], [False, False, True])
    guard, _ = guard_of(keeping((4, 4)), generator, "before", candidates=2)
    answers = guard.answer_several(LEADER, 6)
    assert [answer.values["age"] for answer in answers] == ["v0", "v0", "v0", "v1", "v0", "v0"]
    assert generator.calls == [(LEADER, 6), (f"{LEADER} (showing: age v1)", 2), (f"{LEADER} (showing: age v1)", 1)]
    assert [len(answer.attempts) for answer in answers] == [1, 1, 1, 3, 1, 1]


def test_no_more_candidates_are_asked_for_than_there_are_attempts():
    limits = AttemptLimits(candidates=3, attempts=4)
    assert [limits.round_size(made) for made in range(5)] == [3, 3, 2, 1, 1]
    assert AttemptLimits(3).round_size(7) == 3


class Slow:
    """Makes one item at a time, as it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open: list[asyncio.Future[Item]] = []

    @blocks
    async def generate(self, prompt: str) -> Item:
        self.asked.append(prompt)
        self.open.append(asyncio.get_running_loop().create_future())
        return await self.open[-1]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0)


def test_the_first_candidate_that_fits_is_taken_and_all_are_accounted_for():
    async def ask() -> None:
        generator = Slow()
        guard, enforcer = guard_of(keeping((2, 3)), generator, "before", candidates=3)
        first = asyncio.create_task(guard.answer_async(LEADER))
        await until(lambda: len(generator.open) == 1)
        generator.open[0].set_result(Item.of_text("v1"))
        assert (await first).values == {"age": "v1"}
        series = AnswerSeries(guard, LEADER)
        second = asyncio.create_task(series.answer())
        await until(lambda: len(generator.open) == 4)
        assert len(set(generator.asked[1:])) == 1, "three candidates at once"
        generator.open[3].set_result(Item.of_text("v1"))
        await asyncio.sleep(0.01)
        assert not second.done(), "what does not fit is not taken"
        generator.open[2].set_result(Item.of_text("v0"))
        answer = await second
        assert (answer.values, answer.status, len(answer.attempts)) == ({"age": "v0"}, "ok", 2)
        left = asyncio.create_task(series.supply.leftovers())
        await asyncio.sleep(0.01)
        assert not left.done(), "what is under way is waited for"
        generator.open[1].set_result(Item.of_text("v0"))
        (one,) = await left
        assert one.item == Item.of_text("v0")
        assert enforcer.counts["leader: age"]["missed"] == 0

    asyncio.run(ask())


def test_requests_at_a_time_take_no_thread():
    async def ask() -> None:
        generator = Slow()
        guard, _ = guard_of(keeping((300, 300)), generator, "before")
        before = threading.active_count()
        tasks = [asyncio.create_task(guard.answer_async("a tree")) for _ in range(200)]
        await until(lambda: len(generator.open) == 200)
        assert threading.active_count() < before + 10  # one per request would be 200 more
        for one in generator.open:
            one.set_result(Item.of_text("v0"))
        assert {answer.status for answer in await asyncio.gather(*tasks)} == {"ok"}

    asyncio.run(ask())


class Refusing(Scripted):
    """Makes no more than one at once."""

    def generate_several(self, prompt: str, count: int) -> list[Item]:
        self.calls.append((prompt, count))
        refused = FetchError("one at a time")
        refused.status = 400
        raise refused


@pytest.mark.parametrize("loop", [False, True])
def test_a_generator_that_makes_one_at_a_time_is_asked_for_each(loop):
    generator = Refusing(["v0"], [True])
    guard, _ = guard_of(keeping((9, 9)), generator, "before")
    found = in_loop(guard, [3]) if loop else guard.answer_several(LEADER, 3)
    assert [answer.values for answer in found] == [{"age": "v0"}] * 3
    assert generator.calls[0] == (LEADER, 3)
    assert all(count == 1 for _, count in generator.calls[1:] if loop)


def test_a_call_for_several_that_fails_is_one_attempt():
    class Down(ScriptedSeveral):
        def generate_several(self, prompt: str, count: int) -> list[Item]:
            raise FetchError("it is down")

    guard, _ = guard_of(keeping((9, 9)), Down(["v0"], [True]), "before")
    found = guard.answer_several(LEADER, 3)
    assert [(answer.status, len(answer.attempts)) for answer in found[:2]] == [("refused", 1)] * 2
    # For the last one alone nothing else is asked for than one item.
    assert found[2].status == "ok"


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "evenhand-call":
            thread.join(5)


# ---- what it costs


def priced(budget: dict[str, Any], repeated: Sequence[int] = (3, 3), **more: Any) -> GenerationConfig:
    about = keeping(repeated, **more).model_dump(mode="json", exclude_defaults=True)
    guard = {"price": {"item": 0.04, "call": 0.01}, "budget": budget}
    return GenerationConfig.read({**about, "guard": guard})


def guard_with_budget(about: GenerationConfig, generator: Any, candidates: int = 1) -> tuple[Guard, Enforcer]:
    guard, enforcer = guard_of(about, generator, "before")
    guard.limits = AttemptLimits(candidates, enforcer.retries + 1, about.guard.price, about.guard.budget)
    return guard, enforcer


def test_every_attempt_has_its_cost():
    guard, _ = guard_with_budget(priced({}), ScriptedSeveral(["v0"], [False, True]), candidates=2)
    answers = guard.answer_several(LEADER, 3)
    # The first two are of one call for three; the last one takes two candidates of one call.
    assert [round(answer.cost, 9) for answer in answers] == [0.05, 0.04, 0.09]
    assert answers[2].attempts[0].cost == pytest.approx(0.05)


def test_tokens_are_paid_for_as_they_are_counted():
    price = priced({}).guard.price.model_copy(update={"tokens": (1.0, 2.0)})
    cost = price.cost(calls=1, items=1, usage={"prompt_tokens": 1000, "completion_tokens": 500})
    assert cost == pytest.approx(0.05 + 0.001 + 0.001)


def test_a_budget_that_is_spent_refuses_and_no_deadline_is_missed():
    """What has to be shown is due for the next request then: among what is delivered every deadline is kept."""
    generator = ScriptedSeveral(["v0"], [False, False, True])
    guard, enforcer = guard_with_budget(priced({"request": 0.1}), generator)
    answers = [guard.answer(LEADER) for _ in range(30)]
    refused = [answer for answer in answers if answer.item is None]
    assert refused
    assert {answer.status for answer in refused} == {"refused"}
    assert all(answer.budget is not None and "0.1" in answer.reason for answer in refused)
    assert all(answer.cost <= 0.1 + 1e-12 for answer in answers)
    shown = [int(answer.values["age"][1:]) + 1 for answer in answers if answer.item is not None]
    assert len(shown) > 15
    assert not misses(shown, [3, 3])
    assert enforcer.counts["leader: age"]["missed"] == 0


@settings(max_examples=scaled(40), deadline=None)
@given(
    plain=SHOWN,
    obeys=OBEYS,
    counts=COUNTS,
    cap=st.sampled_from([0.05, 0.1, 0.17, 0.3]),
    candidates=st.integers(1, 3),
    loop=st.booleans(),
)
def test_a_budget_is_never_passed(plain, obeys, counts, cap, candidates, loop):
    about = priced({"request": cap}, (3, 4, 9))
    guard, enforcer = guard_with_budget(about, Awaited(plain, obeys), candidates)

    async def ask(count: int) -> float:
        series = AnswerSeries(guard, LEADER, count)
        answers = [await series.answer() for _ in range(count)]
        return sum(one.cost for one in answers) + sum(one.cost for one in await series.supply.leftovers())

    for count in counts:
        spent = asyncio.run(ask(count)) if loop else run_blocking(ask(count))
        assert spent <= count * cap + 1e-9
    assert enforcer.counts["leader: age"]["missed"] == 0 or not all(obeys)
    assert enforcer.state()["leader: age"]["window"] == []


@given(
    cap=st.floats(0.5, 20),
    tokens=st.integers(1, 2_000_000),
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    lost=st.sets(st.integers(1, 7)),
    together=st.booleans(),
)
def test_calls_in_flight_reserve_the_price_of_tokens(cap, tokens, counts, lost, together):
    price = PriceConfig(item=0.1, call=0.05, tokens=(1.0, 1.0))
    usage = {"prompt_tokens": tokens, "completion_tokens": tokens}
    spending, billed = Spending(price, cap), []
    for number, count in enumerate(counts):
        try:
            size = spending.allow(count, one_call=together)
        except BudgetError:
            break
        for made in [size] if together else [1] * size:
            billed.append(price.cost(calls=1, items=made, usage={}) + made * price.cost(calls=0, items=0, usage=usage))
            if number in lost:
                spending.settle(made, (), lost=True)
            else:
                spending.settle(made, [replace(Item.of_text("x"), usage=usage)] * made)
    assert sum(billed) <= max(cap * (1 + 1e-9), *billed[:1], 0)  # only the first call has unknown tokens


@pytest.mark.parametrize(
    ("guard", "message"),
    [
        ({"budget": {"request": 1}}, "a budget needs a price"),
        ({"price": {"item": 0.04}, "budget": {"day": 0.03}}, "does not cover one item"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(guard, message):
    about = keeping((3, 3)).model_dump(mode="json", exclude_defaults=True)
    with pytest.raises(OptionError, match=message):
        GenerationConfig.read({**about, "guard": guard})
