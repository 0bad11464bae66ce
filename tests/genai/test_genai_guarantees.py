"""What enforcement guarantees, tried to be refuted: regions by exhaustive search, sequences by the definition alone."""

import json
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import genai_reference
import pytest
from genai_reference import Published, after, allowed, feasible, jointly_winning, misses, read_config, subsets, winning
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from evenhand.errors import DecisionError, OptionError
from evenhand.genai import Admission, Enforcer, GenerationConfig
from evenhand.genai import check_feasibility as feasible_configuration
from evenhand.genai.enforcement.enforcer import ADMISSION
from evenhand.genai.games.game import Game, solve_game
from evenhand.genai.simulation.simulate import PublishedCountdown
from support import scaled

SMALL = [beta for n, most in ((2, 6), (3, 6), (4, 5)) for beta in product(range(1, most + 1), repeat=n)]
NAMES = "abcdefgh"


def one(beta: tuple[int, ...], **simulation: int) -> GenerationConfig:
    """One specification on one group."""
    return read_config(
        {"g": list(NAMES[: len(beta)])}, {"group": "g", "repeated": list(beta)}, simulation={"slack": 0, **simulation}
    )


def several(betas: tuple[tuple[int, ...], ...]) -> GenerationConfig:
    """One group, several conditions."""
    values = list(NAMES[: len(betas[0])])
    names = [f"c{i}" for i in range(len(betas))]
    demands = zip(names, map(list, betas), strict=True)
    specifications = [{"condition": one, "group": "g", "values": values, "repeated": beta} for one, beta in demands]
    return read_config({}, *specifications, conditions=[{"name": one} for one in names])


# ---- the region


def test_the_region_is_that_of_exhaustive_search():
    compared = 0
    for beta in SMALL:
        region = solve_game(Game.single(beta))
        assert region.verdict != "undecided"
        assert region.feasible == feasible(beta), beta
        if len(beta) == 4 and sum(beta) % 3:
            continue
        for state in product(*(range(1, most + 1) for most in beta)):
            assert region.holds(state) == (region.feasible and state in winning(beta)), (beta, state)
            compared += 1
    assert compared > 25_000


@pytest.mark.parametrize("beta", [(2, 3, 60), (2, 4, 90), (60, 2, 5), (2, 5, 9, 40), (3, 40, 4, 12), (2, 4, 8, 24)])
def test_deadlines_that_are_longer_than_any_wait_needs_to_be(beta):
    region = solve_game(Game.single(beta))
    assert region.verdict != "undecided"
    assert region.feasible == feasible(beta)
    for state in product(*(range(1, most + 1) for most in beta)):
        assert region.holds(state) == (state in winning(beta)), state


def test_the_joint_region_is_that_of_exhaustive_search():
    for betas in (
        ((3, 3), (3, 3)),
        ((2, 3), (3, 3)),
        ((2, 2), (2, 2)),
        ((3, 3), (2, 5)),
        ((4, 4, 4), (4, 4, 4)),
        ((2, 4, 4), (5, 5, 5)),
        ((3, 3), (3, 3), (3, 3)),
    ):
        flat = tuple(most for beta in betas for most in beta)
        moves = tuple(subsets(len(betas)))
        actions = tuple((value,) * len(betas) for value in range(len(betas[0])))
        region = solve_game(Game(betas, actions, moves))
        safe = jointly_winning(betas)
        assert region.verdict != "undecided"
        assert region.feasible == (betas in safe), betas
        for state in product(*(product(*(range(1, most + 1) for most in beta)) for beta in betas)):
            left = tuple(c for each in state for c in each)
            if region.method == "exact":
                assert region.holds(left) == (region.feasible and state in safe), (betas, state)
            elif region.holds(left):
                assert state in safe, (betas, state)
        assert region.holds(flat) == region.feasible


@pytest.mark.parametrize("beta", [(2, 3, 12), (1, 2), (2, 2, 2), (2, 4, 4, 50)])
def test_what_cannot_be_kept_is_refused_with_values_at_fault(beta):
    found = feasible_configuration(one(beta))
    assert not found.feasible
    faults = found.specifications[0].faults
    kept = tuple(beta[NAMES.index(value)] for value in faults)
    assert not feasible(kept)
    for spared in range(len(kept)):
        assert len(kept) == 1 or feasible(kept[:spared] + kept[spared + 1 :]), "a value is blamed without need"
    with pytest.raises(OptionError, match=f"{faults[0]} within {kept[0]}"):
        Enforcer(one(beta))


# ---- least restrictive, step by step


@pytest.mark.parametrize("mode", ["before", "after"])
def test_it_intervenes_exactly_when_some_value_would_lose(mode):
    rng = Random(1)
    steps, interventions = 0, 0
    for beta in SMALL:
        if not feasible(beta) or (len(beta) > 2 and rng.random() > 0.3):
            continue
        enforcer = Enforcer(one(beta), mode=mode, in_flight=1, seed=2)
        counters = beta
        likes = [rng.random() ** 3 for _ in beta]
        for _ in range(30):
            right = allowed(counters, beta)
            assert right
            everything = right == set(range(len(beta)))
            if mode == "before":
                admission = enforcer.admit({"asked"})
                must = {NAMES.index(value) for value in admission.must.get("g", ())}
                assert must == (set() if everything else right), (beta, counters)
            else:
                for value in range(len(beta)):
                    copy = Enforcer(one(beta), mode=mode, in_flight=1)
                    copy.restore(enforcer.state())
                    outcome = copy.complete(copy.admit({"asked"}), {"g": NAMES[value]})
                    assert (outcome.status == "ok") == (value in right), (beta, counters, value)
                    if outcome.status != "ok":
                        assert {NAMES.index(value) for value in outcome.admission.must["g"]} == right
                admission = enforcer.admit({"asked"})
                assert not admission.must
            shown = rng.choices(sorted(right), [likes[value] for value in sorted(right)])[0]
            assert enforcer.complete(admission, {"g": NAMES[shown]}).status == "ok"
            counters = after(counters, shown, beta)
            assert counters is not None
            steps += 1
            interventions += not everything
    assert steps > 1500
    assert interventions > 300


def test_with_others_in_flight_it_intervenes_exactly_when_a_blank_would_lose():
    rng = Random(3)
    asked, left_alone = 0, 0
    for beta in [(2, 4, 4), (3, 3, 3), (2, 5, 5), (3, 4, 5), (4, 4, 4, 4), (2, 4, 5, 5)]:
        if not feasible(beta):
            continue
        for seed in range(40):
            enforcer = Enforcer(one(beta), seed=seed)
            counters = beta
            for _ in range(12):
                admission = enforcer.admit({"asked"})
                blank = genai_reference.after_blank(counters)
                if blank in winning(beta):
                    assert not admission.must
                    counters = blank
                    left_alone += 1
                    if rng.random() < 0.5:  # it becomes known before the next one comes
                        shown = rng.randrange(len(beta))
                        enforcer.complete(admission, {"g": NAMES[shown]})
                        counters = tuple(beta[k] if k == shown else left for k, left in enumerate(counters))
                else:
                    (value,) = admission.must["g"]
                    assert {NAMES.index(each) for each in admission.allowed["g"]} == allowed(counters, beta)
                    counters = after(counters, NAMES.index(value), beta)
                    assert counters in winning(beta)
                    asked += 1
    assert min(asked, left_alone) > 120


def test_conditions_on_one_group_are_kept_least_restrictively():
    rng = Random(4)
    for betas in (((3, 3), (3, 3)), ((2, 6), (3, 3)), ((2, 4, 4), (9, 9, 9))):
        safe = jointly_winning(betas)
        if betas not in safe:
            assert not feasible_configuration(several(betas)).feasible
            continue
        enforcer = Enforcer(several(betas), in_flight=1)
        state = betas
        for _ in range(80):
            met = rng.choice(list(subsets(len(betas))))
            right = genai_reference.jointly_allowed(state, betas, met, safe)
            admission = enforcer.admit({f"c{i}" for i in met})
            must = {NAMES.index(value) for value in admission.must.get("g", ())}
            assert must == (set() if right == set(range(len(betas[0]))) else right)
            shown = rng.choice(sorted(right))
            assert enforcer.complete(admission, {"g": NAMES[shown]}).status == "ok"
            state = tuple(after(each, shown, betas[i]) if i in met else each for i, each in enumerate(state))


# ---- the published rule


@pytest.mark.parametrize(("n", "beta"), [(2, 2), (2, 5), (3, 3), (3, 4), (3, 7), (4, 4), (4, 9), (5, 10), (6, 6)])
def test_equal_deadlines_never_cost_more_than_the_published_rule(n, beta):
    """Where it is right, equal deadlines one at a time, every decision is the same; looking first asks for less."""
    rng = Random(n * 100 + beta)
    weights = [rng.random() ** 2 for _ in range(n)]
    published, ours = Published(n, beta), PublishedCountdown((beta,) * n)
    before = Enforcer(one((beta,) * n), mode="before", in_flight=1)
    looking = Enforcer(one((beta,) * n), mode="after", in_flight=1)
    theirs = mine = redone = 0
    for _ in range(400):
        due = published.due()
        assert (ours.value_to_ask() is not None) == bool(due)
        admission = before.admit({"asked"})
        must = {NAMES.index(value) for value in admission.must.get("g", ())}
        # Where all values are due, asking for one of them changes nothing; the published rule asks all the same.
        assert must == (due if len(due) < n else set())
        free = rng.choices(range(n), weights)[0]
        first = looking.complete(looking.admit({"asked"}), {"g": NAMES[free]})
        assert first.status == "ok" or due, "it redoes an item where the published rule leaves the prompt alone"
        shown = free if not due or free in due else rng.choice(sorted(due))
        if first.status != "ok":
            assert first.admission is not None
            assert looking.complete(first.admission, {"g": NAMES[shown]}).status == "ok"
        theirs, mine, redone = theirs + bool(due), mine + bool(must), redone + (first.status != "ok")
        assert before.complete(admission, {"g": NAMES[shown]}).status == "ok"
        published.show(shown)
        ours.record_value(shown)
    assert redone <= mine <= theirs
    assert theirs > 0


# ---- failures that the slack bears


@pytest.mark.parametrize("beta", [(6, 8, 10, 12, 16), (3, 7, 20, 50), (5, 5, 5)])
def test_slack_bears_as_many_useless_items(beta):
    """One request at a time, no retries: so many items that ignore what they had to show cost no deadline."""
    missed = Counter()
    for slack, seed in product((0, 1, 2), range(25)):
        if not solve_game(Game.single(tuple(most - slack for most in beta))).feasible:
            continue
        rng = Random(seed)
        enforcer = Enforcer(one(beta), in_flight=1, retries=0, slack=slack, seed=seed)
        useless, items = max(1, slack), []
        for _ in range(80):
            admission = enforcer.admit({"asked"})
            must = admission.must.get("g", ())
            others = [value for value in NAMES[: len(beta)] if value not in must]
            if must and useless and others and rng.random() < 0.3:
                useless -= 1
                shown = rng.choice(others)
            else:
                shown = rng.choice(must or NAMES[: len(beta)])
            enforcer.complete(admission, {"g": shown})
            items.append(NAMES.index(shown) + 1)
        missed[slack] += len(misses(items, beta))
        assert enforcer.counts["asked: g"]["missed"] == len(misses(items, beta))
    assert missed[0] > 0
    assert missed[1] == missed[2] == 0


# ---- whatever happens

SETTINGS: dict[str, dict[str, Any]] = {
    "hall": {
        "specifications": [{"condition": "x", "group": "g", "values": ["a", "b", "c", "d"], "repeated": [4, 5, 6, 9]}]
    },
    "equal": {"specifications": [{"condition": "x", "group": "g", "values": ["a", "b", "c"], "repeated": 3}]},
    "exact": {"specifications": [{"condition": "x", "group": "g", "values": ["a", "b", "c"], "repeated": [2, 4, 5]}]},
    "two groups": {
        "specifications": [
            {"condition": "x", "group": "g", "values": ["a", "b", "c"], "repeated": [2, 4, 4]},
            {"condition": "x", "group": "h", "values": ["p", "q"], "repeated": [3, 4]},
            {"condition": "y", "group": "h", "values": ["p", "q"], "repeated": [4, 4], "name": "other"},
        ]
    },
    "one group, two conditions, exact": {
        "specifications": [
            {"condition": "x", "group": "g", "values": ["a", "b"], "repeated": 3},
            {"condition": "y", "group": "g", "repeated": [3, 4]},
        ]
    },
    "one group, two conditions, hall": {
        "specifications": [
            {"condition": "x", "group": "g", "values": ["a", "b", "c"], "repeated": [6, 7, 6]},
            {"condition": "y", "group": "g", "repeated": [8, 6, 9]},
        ]
    },
    "pairs": {
        "groups": {"g": ["a", "b"], "h": ["p", "q"]},
        "specifications": [
            {"condition": "x", "paired": ["g", "h"], "repeated": 5},
            {"condition": "y", "group": "g", "repeated": 7},
        ],
    },
    "pairs, exact": {
        "groups": {"g": ["a", "b"], "h": ["p", "q"]},
        "specifications": [{"condition": "x", "paired": ["g", "h"], "repeated": [2, 4, 8, 8]}],
    },
}
DRAWS = st.integers(0, 10**6)


class Life(RuleBasedStateMachine):
    """Requests, items in any order, failures and restarts, for one enforcer; ``honest`` keeps what it assumes."""

    honest = True

    @initialize(
        setting=st.sampled_from(sorted(SETTINGS)),
        mode=st.sampled_from(["before", "after"]),
        alone=st.booleans(),
        retries=st.integers(1, 2),
        slack=st.integers(0, 1),
        seed=st.integers(0, 3),
    )
    def begin(self, setting, mode, alone, retries, slack, seed):
        described = {"conditions": [{"name": "x"}, {"name": "y"}], **SETTINGS[setting]}
        configuration = GenerationConfig.read(described)
        if not feasible_configuration(configuration, slack=slack).feasible:
            slack = 0
        self.made = (
            configuration,
            {"mode": mode, "seed": seed, "retries": retries, "slack": slack, "in_flight": 1 if alone else None},
        )
        self.configuration = configuration
        self.mode, self.alone, self.retries = mode, alone, retries
        self.enforcer = Enforcer(configuration, **self.made[1])
        self.flight: dict[int, Admission] = {}
        self.met: list[frozenset[str]] = []
        self.shown: dict[int, dict[str, str | None]] = {}
        self.order: list[int] = []
        self.finished: list[Admission] = []
        self.violations = self.crowded = 0

    # ---- what happens

    @precondition(lambda self: not (self.honest and self.alone and self.flight) and len(self.flight) < 9)
    @rule(met=st.sampled_from([("x",), ("x", "y"), ("y",), ("x",), ()]))
    def admit(self, met):
        self.crowded += bool(self.flight)
        number = len(self.met)
        self.met.append(frozenset(met))
        self.flight[number] = self.enforcer.admit(met)

    @precondition(lambda self: self.flight)
    @rule(which=DRAWS, what=DRAWS, obeys=st.booleans())
    def item(self, which, what, obeys):
        number, admission = self.pick(which)
        rng = Random(what)
        obeys = obeys or (self.honest and admission.attempt >= self.retries)
        values = {}
        for group, names in self.configuration.values.items():
            if obeys and group in admission.must:
                values[group] = rng.choice(admission.must[group])
            else:
                values[group] = rng.choice([*names, names[0], names[0], None])
        outcome = self.enforcer.complete(admission, values)
        self.answered(number, admission, outcome, values)

    @precondition(lambda self: self.flight)
    @rule(which=DRAWS)
    def no_item(self, which):
        number, admission = self.pick(which)
        if self.honest and admission.must and admission.attempt >= self.retries:
            return
        self.answered(
            number, admission, self.enforcer.complete(admission, None), dict.fromkeys(self.configuration.values)
        )

    @rule()
    def restart(self):
        kept = json.loads(json.dumps(self.enforcer.state()))
        under_way = json.dumps({number: admission.to_dict() for number, admission in self.flight.items()})
        configuration, options = self.made
        self.enforcer = Enforcer(configuration, **options)
        self.enforcer.restore(kept)
        assert self.enforcer.state() == kept
        self.flight = {int(number): ADMISSION.validate_python(each) for number, each in json.loads(under_way).items()}

    @precondition(lambda self: self.mode == "before" and self.finished)
    @rule(which=DRAWS)
    def item_twice(self, which):
        admission = self.finished[which % len(self.finished)]
        before = self.enforcer.state()
        with pytest.raises(DecisionError, match="not pending"):
            self.enforcer.complete(admission, {"g": "a"})
        assert self.enforcer.state() == before

    def pick(self, which):
        number = sorted(self.flight)[which % len(self.flight)]
        return number, self.flight[number]

    def answered(self, number, admission, outcome, values):
        if number not in self.order:
            self.order.append(number)
        if outcome.status == "retry":
            assert admission.attempt < self.retries
            self.flight[number] = outcome.admission
            return
        del self.flight[number]
        if admission.counts:
            self.finished.append(admission)
        self.violations += outcome.status == "violation"
        self.shown[number] = values

    # ---- what must hold

    def sequence(self, requirement):
        """Values from 1 of the items of a condition, up to the first that is under way.

        They are in the order of their requests, or, in mode ``after``, in that in which they were first looked at.
        """
        found = []
        for number in self.order if self.mode == "after" else range(len(self.met)):
            if requirement.condition in self.met[number]:
                if number not in self.shown:
                    break
                shown = [self.shown[number][group] for group in requirement.groups]
                found.append(0 if None in shown else requirement.labels.index(" + ".join(shown)) + 1)
        return found

    @invariant()
    def no_deadline_is_missed_in_silence(self):
        if not hasattr(self, "enforcer"):
            return
        counts = self.enforcer.counts
        for requirement in self.configuration.requirements:
            missed = misses(self.sequence(requirement), requirement.repeated)
            said = counts[requirement.name]
            assert said["missed"] == len(missed), (requirement.name, missed)
            if self.honest:
                assert not missed
                assert not any(said[what] for what in ("disobeyed", "unrecognised", "failed", "in-flight"))
            elif missed:
                # Missed deadlines follow from broken assumptions, and those were said.
                assert self.violations or sum(each["in-flight"] for each in counts.values())
        if self.honest:
            assert not self.violations
            assert not self.enforcer.broken_assumptions
            guarantee = self.enforcer.guarantee()
            assert "all assumptions held" in guarantee
            assert ("in which they were first classified" in guarantee) == (self.mode == "after")
        elif self.violations:
            assert any(each[what] for each in counts.values() for what in ("disobeyed", "unrecognised", "failed"))
            assert self.enforcer.broken_assumptions


class Broken(Life):
    """Anything may happen: what is missed is said, with the assumption that was broken."""

    honest = False


CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much]
QUICK = settings(max_examples=scaled(80), stateful_step_count=40, deadline=None, derandomize=True)
QUICK = settings(QUICK, suppress_health_check=CHECKS)
TestHonest = Life.TestCase
TestHonest.settings = QUICK
TestBroken = Broken.TestCase
TestBroken.settings = QUICK


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("setting", sorted(SETTINGS))
def test_long_streams_with_many_in_flight(setting, mode):
    """Thousands of requests, up to 16 in flight, a generator that prefers one value; judged by the definition."""
    rng = Random(f"{setting} {mode}")
    life = Life()
    life.begin(setting, mode, False, 2, 0, 1)
    asked = Counter()
    for _ in range(1200):
        while len(life.flight) < 16:
            number = len(life.met)
            life.met.append(frozenset(rng.choice([("x",), ("x", "y"), ("y",)])))
            life.flight[number] = life.enforcer.admit(life.met[-1])
        number = rng.choice(sorted(life.flight))
        admission = life.flight[number]
        asked[bool(admission.must)] += 1
        values = {
            group: rng.choice(admission.must[group]) if group in admission.must else rng.choice([names[0], names[-1]])
            for group, names in life.configuration.values.items()
        }
        life.answered(number, admission, life.enforcer.complete(admission, values), values)
    life.no_deadline_is_missed_in_silence()
    assert min(asked.values()) > 50
