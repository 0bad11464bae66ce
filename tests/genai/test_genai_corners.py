"""The enforcer where something went wrong before, or is left over: every decision against exhaustive search."""

from itertools import product
from random import Random

import pytest
from genai_reference import read_config, winning

from evenhand.errors import OptionError
from evenhand.genai import Enforcer, GenerationConfig
from evenhand.genai.enforcement.component import OPEN_SLOT, VOID_ITEM, SpecificationState
from evenhand.genai.spec.specification import Requirement

NAMES = "abcdef"
LOST = -1


def one(beta):
    return read_config({"g": list(NAMES[: len(beta)])}, {"condition": "x", "group": "g", "repeated": list(beta)})


def level(counters, value, beta, slack):
    """How many items early every deadline can be kept once ``value`` was shown; ``LOST``: not even in time."""
    then = [beta[other] if other == value else left - 1 for other, left in enumerate(counters)]
    for by in range(slack, -1, -1):
        if tuple(left - by for left in then) in winning(tuple(most - by for most in beta)):
            return by
    return LOST


CASES = [
    (beta, slack)
    for beta in [(5, 6, 7), (4, 5, 5, 8), (3, 5, 5), (3, 5, 9, 9)]
    for slack in (0, 1, 2)
    if tuple(most - slack for most in beta) in winning(tuple(most - slack for most in beta))
]
"""Deadlines of both kinds, those for which there is a bound and those for which the game is solved."""


@pytest.mark.parametrize(("beta", "slack"), CASES)
@pytest.mark.parametrize("mode", ["before", "after"])
def test_decisions_after_failures_are_the_best_there_are(mode, beta, slack):
    """A generator that disobeys half of the time: what is asked for wins back most, and nothing is redone in vain."""
    everything, seen = set(range(len(beta))), set()
    for seed in range(12):
        rng = Random(seed)
        enforcer = Enforcer(one(beta), mode=mode, slack=slack, retries=0, in_flight=1, seed=seed)
        counters = beta
        for _ in range(40):
            levels = [level(counters, value, beta, slack) for value in range(len(beta))]
            best = max(levels)
            right = {value for value in everything if levels[value] == best}
            if best < slack:
                first = min(counters[value] for value in right)
                right = {value for value in right if counters[value] == first}
            elif right == everything:
                right = set()
            admission = enforcer.admit({"x"})
            shown = rng.randrange(len(beta))
            if mode == "after":
                outcome = enforcer.complete(admission, {"g": NAMES[shown]})
                fine = levels[shown] >= slack or LOST < levels[shown] == best
                if not fine and levels[shown] == best:
                    fine = outcome.status == "ok" and shown in right  # all is lost: only what is due first will do
                assert (outcome.status == "ok") == fine, (counters, shown)
                seen.add((best, outcome.status == "ok"))
                if outcome.status != "ok":
                    admission, shown = outcome.admission, rng.randrange(len(beta))
            if mode == "before" or outcome.status != "ok":
                assert {NAMES.index(value) for value in admission.must.get("g", ())} == right, (counters, slack)
                outcome = enforcer.complete(admission, {"g": NAMES[shown]})
                fine = not right or levels[shown] >= slack or LOST < levels[shown] == best
                if best > LOST:
                    assert outcome.status == ("ok" if fine else "violation"), (counters, shown)
                seen.add((best, outcome.status == "ok"))
            counters = tuple(beta[other] if other == shown else left - 1 for other, left in enumerate(counters))
    assert {best for best, _ in seen} == set(range(LOST, slack + 1))


def test_slack_is_kept_in_pairs_of_three_groups():
    groups = {"g": ["a", "b"], "h": ["p", "q"], "k": ["y", "z"]}
    described = {
        "conditions": [{"name": "x"}],
        "groups": groups,
        "specifications": [{"condition": "x", "paired": list(groups), "repeated": 13}],
    }
    for seed in range(10):
        rng, asked = Random(seed), 0
        enforcer = Enforcer(GenerationConfig.read(described), slack=1, in_flight=1, seed=seed)
        for _ in range(60):
            admission = enforcer.admit({"x"})
            asked += bool(admission.must)
            shown = {group: rng.choice(admission.must.get(group, names)) for group, names in groups.items()}
            assert enforcer.complete(admission, shown).status == "ok"
            left = sorted(items for row in enforcer.items_until_due().values() for items in row.values())
            assert all(items - 1 > place for place, items in enumerate(left)), left
        assert asked > 10


def test_an_item_whose_prompt_fixes_one_of_several_groups_does_not_count_for_them_together():
    enforcer = Enforcer(
        read_config(
            {"g": ["a", "b"], "h": ["p", "q"]},
            {"condition": "x", "paired": ["g", "h"], "repeated": 9},
            {"condition": "x", "group": "h", "repeated": 9},
        )
    )
    assert enforcer.admit({"x"}, fixed={"g"}).counts == ("x: h",)
    assert enforcer.admit({"x"}, fixed={"h"}).counts == ()


def test_when_more_are_in_flight_than_was_said_one_value_is_asked_for():
    enforcer = Enforcer(one((3, 3, 3)), in_flight=1)
    enforcer.admit({"x"})
    crowded = enforcer.admit({"x"})
    assert len(crowded.allowed["g"]) == 3
    assert len(crowded.must["g"]) == 1
    assert [broken.what for broken in enforcer.broken_assumptions] == ["in-flight"]


# ---- deadlines, slot by slot


def state_of(repeated):
    values = tuple(NAMES[: len(repeated)])
    return SpecificationState(Requirement("x: g", "x", ("g",), (values,), tuple(repeated)))


def reckoned(repeated, slots):
    """``due`` and the number of items by the definition; a slot is what it shows or promises, ``OPEN`` or ``VOID``."""
    due, items = list(repeated), 0
    for value in slots:
        if value != VOID_ITEM:
            items += 1
            if value != OPEN_SLOT:
                due[value] = items + repeated[value]
    return due, items


@pytest.mark.parametrize("seed", range(20))
def test_deadlines_are_those_of_all_slots_whatever_the_order_in_which_they_are_known(seed):
    rng = Random(seed)
    repeated = [rng.randint(2, 9) for _ in range(rng.randint(2, 4))]
    values = range(len(repeated))
    deadlines, slots, under_way = state_of(repeated), [], []
    for _ in range(150):
        if not under_way or (rng.random() < 0.5 and len(under_way) < 8):
            promise = rng.choice([OPEN_SLOT, OPEN_SLOT, *values])
            under_way.append(deadlines.admit(promise))
            slots.append(promise)
        else:
            slot = under_way.pop(rng.randrange(len(under_way)))
            slots[slot - 1] = rng.choice([VOID_ITEM, slots[slot - 1] if slots[slot - 1] >= 0 else 0, *values])
            deadlines.complete(slot, slots[slot - 1])
        assert (deadlines.due, deadlines.items) == reckoned(repeated, slots)


@pytest.mark.parametrize("slots", list(product([0, 1, VOID_ITEM], repeat=3)))
def test_what_would_follow_changes_nothing(slots):
    deadlines = state_of((4, 5))
    for _ in slots:
        deadlines.admit()
    for slot, value in enumerate(slots[:2], 1):
        deadlines.complete(slot, value)
    before = deadlines.state()
    due, items, _spare = deadlines.due_if_shown(3, slots[2])
    assert (due, items) == reckoned((4, 5), slots)
    assert deadlines.state() == before


# ---- configurations of a size that nobody means


@pytest.mark.parametrize(
    ("groups", "ways", "simulation", "complaint"),
    [
        (30, 15, {}, "more than 10,000 combinations of 15"),
        (12, 12, {}, "more than 10,000 combinations of values"),
        (2, 2, {"slack": 100_000_000}, "got 100000000"),
    ],
)
def test_configurations_that_would_take_for_ever_are_refused(groups, ways, simulation, complaint):
    names = [f"g{i}" for i in range(groups)]
    with pytest.raises(OptionError, match=complaint):
        read_config(
            {name: ["a", "b", "c"] for name in names},
            {"condition": "x", "paired": names, "ways": ways, "repeated": 9},
            simulation=simulation,
        )


def test_only_what_was_not_shown_is_blamed():
    groups = {"g": ["a", "b"], "h": ["p", "q"]}
    specifications = [
        {"condition": "x", "paired": ["g", "h"], "repeated": 6},
        {"condition": "x", "group": "h", "repeated": 6},
    ]
    blamed = 0
    for seed in range(30):
        enforcer = Enforcer(read_config(groups, *specifications), retries=0, seed=seed)
        for _ in range(12):
            admission = enforcer.admit({"x"})
            asked = enforcer.counts["x: h"]["asked"]
            shown = {group: admission.must.get(group, names)[0] for group, names in groups.items()}
            if admission.must.keys() == groups.keys() and asked:
                shown["g"] = "b" if shown["g"] == "a" else "a"
            enforcer.complete(admission, shown)
            blamed += enforcer.counts["x: g + h"]["disobeyed"]
            assert enforcer.counts["x: h"]["disobeyed"] == 0
    assert blamed > 0
