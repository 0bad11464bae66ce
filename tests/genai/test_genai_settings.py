"""Retries and slack: bounds by hand, against the worst generator by value iteration, and against simulations."""

from functools import cache
from itertools import product
from random import Random

import pytest
from genai_recovery import follow_recovery
from genai_reference import after, after_blank, feasible, read_config, run_policy, winning
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from evenhand.errors import OptionError
from evenhand.genai import Enforcer, GenerationConfig
from evenhand.genai.assessment.check import check_configuration
from evenhand.genai.games import retries as bounds
from evenhand.genai.games.feasibility import find_components
from evenhand.genai.games.retries import (
    AttemptSuccess,
    RetrySettings,
    format_at_most,
    recovery_window,
    split_specifications,
)
from evenhand.stats import Observed, Unknown
from support import scaled

NAMES = "abcdefgh"


def one(beta, **simulation):
    """One specification; by itself the generator shows all values equally often."""
    names = list(NAMES[: len(beta)])
    return read_config(
        {"g": names},
        {"group": "g", "repeated": list(beta)},
        simulation={"generator": {"g": [1 / len(beta)] * len(beta)}, "slack": 0, **simulation},
    )


def tolerating(configuration, **tolerated):
    return configuration.model_copy(update={"tolerated": configuration.tolerated.model_copy(update=tolerated)})


def bound_misses(configuration, success, *, requests=100_000, tolerated=0.01, **options):
    return bounds.bound_misses(tolerating(configuration, requests=requests, misses=tolerated), success, **options)


def choose_retries(configuration, success, *, requests=100_000, tolerated=0.01, **options):
    return bounds.choose_retries(tolerating(configuration, requests=requests, misses=tolerated), success, **options)


def recovery(beta, slack):
    (component,) = find_components(one(beta))
    return recovery_window(component, slack)


def works(share):
    return AttemptSuccess(rate={}, least=share, source="by the test")


# ---- the reference: the worst that can happen, by value iteration over the definition


class Worst:
    """The probability of a missed deadline against the worst generator, and the worst choice among those allowed.

    Args:
        beta: deadlines; failing: an item that must show something shows what the adversary likes, so often.
        slack: as kept.
    """

    def __init__(self, beta, failing, slack):
        self.beta, self.failing, self.slack = beta, failing, slack
        self.probability = cache(self._probability)

    def level(self, state):
        """How many useless items a state bears, up to the slack; -1 if it is lost."""
        if state is None:
            return -1
        for by in range(self.slack, -1, -1):
            if tuple(c - by for c in state) in winning(tuple(b - by for b in self.beta)):
                return by
        return -1

    def _probability(self, state, items):
        if state is None:
            return 1.0
        if not items:
            return 0.0
        then = [after(state, k, self.beta) for k in range(len(self.beta))]
        chances = [self.probability(to, items - 1) for to in then]
        if self.level(after_blank(state)) >= self.slack:
            return max(chances)
        levels = [self.level(to) for to in then]
        served = max(chance for chance, level in zip(chances, levels, strict=True) if level == max(levels))
        return (1 - self.failing) * served + self.failing * max(chances)


def test_a_bound_by_hand():
    # 3 values within 6 items, slack 1: a failure is made good by 2 items. One attempt works 9 times out of 10.
    found = bound_misses(one((6, 6, 6), slack=1, retries=1), works(0.9), requests=100)
    assert found.failing == pytest.approx(0.01)
    assert found.misses == pytest.approx(100 * 0.01 * (1 - 0.99**2), rel=1e-6)
    assert found.slack_counts
    assert found.good_for == int(0.01 / (0.01 * (1 - 0.99**2)))
    assert not found.enough
    plain = bound_misses(one((6, 6, 6), retries=1), works(0.9), requests=100)
    assert plain.misses == pytest.approx(1 - 0.99**100, rel=1e-6)
    assert not plain.slack_counts
    certain = bound_misses(one((6, 6, 6)), works(1.0))
    assert (certain.misses, certain.good_for, certain.enough) == (0.0, None, True)
    hopeless = bound_misses(one((6, 6, 6)), works(0.0))
    assert (hopeless.misses, hopeless.good_for, hopeless.enough) == (1.0, 0, False)


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_no_bound_is_below_the_worst_that_can_happen(data):
    n = data.draw(st.integers(2, 3))
    beta = tuple(data.draw(st.lists(st.integers(2, 7), min_size=n, max_size=n)))
    slack = data.draw(st.integers(0, 3))
    shorter = tuple(b - slack for b in beta)
    assume(min(shorter) >= 1 and feasible(shorter))
    failing = data.draw(st.sampled_from([0.002, 0.01, 0.05, 0.2, 0.5, 0.9]))
    items = data.draw(st.integers(1, 40))
    bound = bound_misses(one(beta, slack=slack, retries=0), works(1 - failing), requests=items).misses
    assert bound >= Worst(beta, failing, slack).probability(beta, items) - 1e-12


@pytest.mark.parametrize(("beta", "slack", "items"), [((4, 4), 1, 200), ((5, 5, 5), 1, 100), ((5, 6, 7), 2, 100)])
def test_bounds_are_not_far_above_the_worst_that_can_happen(beta, slack, items):
    bound = bound_misses(one(beta, slack=slack, retries=0), works(0.99), requests=items).misses
    worst = Worst(beta, 0.01, slack).probability(beta, items)
    assert worst <= bound <= 4 * worst
    without = bound_misses(one(beta, slack=0, retries=0), works(0.99), requests=items).misses
    assert bound < without / 5


# ---- how soon the slack is there again


def test_every_failure_is_made_good_by_as_many_items_as_there_are_other_values():
    followed_all = 0
    for beta in [*product(range(3, 7), repeat=2), *product(range(4, 8), repeat=3), (5, 7, 6, 6), (6, 6, 7, 9)]:
        for slack in range(1, 4):
            if min(beta) - slack < len(beta):
                continue
            items = follow_recovery(beta, slack)
            assert items is not None
            assert items <= recovery(beta, slack) == len(beta) - 1, (beta, slack)
            followed_all += 1
    assert followed_all > 60


def test_recovery_is_unknown_where_deadlines_are_less_than_the_values():
    assert recovery((6, 8, 10, 12, 16), 1) == 4
    assert recovery((6, 8, 10, 12, 16), 2) is None
    assert recovery((2, 5, 9), 2) is None


def test_recovery_is_not_claimed_of_several_specifications_that_share_a_group():
    specifications = {"group": "g", "repeated": 20}, {"paired": ["g", "h"], "repeated": 20}
    configuration = read_config({"g": ["a", "b"], "h": ["c", "d"]}, *specifications, simulation={"slack": 1})
    (component,) = find_components(configuration)
    assert recovery_window(component, 1) is None
    found = bound_misses(configuration, works(0.9))
    assert not found.slack_counts
    assert "share a group" in found.why


# ---- the enforcer itself, against a generator that harms on purpose


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize(("beta", "slack", "failing"), [((4, 4), 1, 0.1), ((5, 6, 6), 1, 0.1), ((5, 6, 7), 2, 0.2)])
def test_the_enforcer_misses_no_more_often_than_the_bound(mode, beta, slack, failing):
    items, runs = 12, 500
    configuration = one(beta, slack=slack, retries=0)
    bound = bound_misses(configuration, works(1 - failing), requests=items).misses
    assert bound < 0.9
    random = Random(5)
    missed = 0
    for seed in range(runs):
        enforcer = Enforcer(configuration, mode=mode, in_flight=1, seed=seed)
        for _ in range(items):
            left = enforcer.items_until_due()["asked: g"]
            latest = max(left, key=left.__getitem__)
            admission = enforcer.admit({"asked"})
            while admission is not None:
                must = admission.must.get("g")
                obeyed = must is not None and random.random() >= failing
                shown = None if random.random() < 0.1 and must is None else must[0] if obeyed else latest
                admission = enforcer.complete(admission, {"g": shown}).admission
        missed += any(one["missed"] for one in enforcer.counts.values())
    assert missed > 0
    assert stats.binomtest(missed, runs, bound, alternative="greater").pvalue > 1e-3, (missed / runs, bound)


def test_slack_does_not_help_with_many_in_flight_and_is_not_counted():
    beta = (6, 8, 10, 12, 16)
    found = {}
    for slack in (0, 2):
        configuration = one(beta, obeys=0.8, retries=0, slack=slack)
        found[slack] = run_policy(configuration, requests=4000, in_flight=16).violations
        said = bound_misses(configuration, AttemptSuccess.from_simulation(configuration), in_flight=16)
        assert said.misses == bound_misses(one(beta, obeys=0.8, retries=0), works(0.8), in_flight=16).misses
        assert not said.slack_counts
    assert found[2] > 0.7 * found[0] > 50
    assert "in 100,000 requests may be 1, and" in said.statement()
    assert "16 in flight, slack does not help" in said.statement()
    chosen = choose_retries(configuration, works(0.8), in_flight=16)
    assert isinstance(chosen, RetrySettings)
    assert (chosen.retries, chosen.slack) == (10, 2)  # 0.2 ** 11 * 100,000 is the first below 0.01
    assert 0.2**11 * 1e5 < 0.01 < 0.2**10 * 1e5
    assert "any number in flight" in bound_misses(configuration, works(0.8), in_flight=None).why


# ---- choosing


@settings(max_examples=scaled(40), deadline=None)
@given(
    share=st.floats(0.3, 0.999),
    beta=st.sampled_from([(4, 4), (6, 6, 6), (5, 6, 6, 9), (9, 9, 9)]),
    tolerated=st.sampled_from([0.2, 0.01, 1e-5]),
    in_flight=st.sampled_from([1, 4]),
)
def test_nothing_smaller_is_enough(share, beta, tolerated, in_flight):
    options = {"tolerated": tolerated, "requests": 1000, "in_flight": in_flight}
    chosen = choose_retries(one(beta), works(share), **options)
    assert isinstance(chosen, RetrySettings)
    assert chosen.enough
    assert chosen.misses <= tolerated
    for retries in range(chosen.retries):
        assert not bound_misses(one(beta), works(share), retries=retries, **options).enough


def test_there_may_be_nothing_to_choose():
    assert choose_retries(one((4, 4)), works(0.0)) == Unknown(reason="the success rate of instructions is unknown or 0")
    rare = choose_retries(one((4, 4)), works(0.01), in_flight=None)
    assert isinstance(rare, Unknown)
    assert "even 60 retries" in rare.reason


# ---- how often instructions work


def test_success_by_hand():
    configuration = one((4, 4), obeys=0.9, unrecognised=0.1)
    assert AttemptSuccess.from_simulation(configuration).least == pytest.approx(0.81)
    counted = AttemptSuccess.from_counts(configuration, {"asked: g": {"asked": 100, "obeyed": 90}})
    found = counted.rate["asked: g"]
    assert isinstance(found, Observed)
    assert stats.binom.sf(89, 100, found.low) == pytest.approx(0.025, rel=1e-6)
    assert counted.least == found.low
    assert "90 of 100 attempts succeeded, at least 82.3%" in counted.statement()
    nothing = AttemptSuccess.from_counts(configuration, {})
    assert nothing.least == 0
    assert "not known" in nothing.statement()


def test_failures_of_groups_that_are_asked_for_together_add_up():
    configuration = read_config(
        {"g": ["a", "b"], "h": ["c", "d"]}, {"group": "g", "repeated": 6}, {"group": "h", "repeated": 6}
    )
    counts = {"asked: g": {"asked": 1000, "obeyed": 900}, "asked: h": {"asked": 1000, "obeyed": 800}}
    found = AttemptSuccess.from_counts(configuration, counts)
    low = [one.low for one in found.rate.values() if isinstance(one, Observed)]
    assert stats.binom.sf(899, 1000, low[0]) == pytest.approx(0.05 / 2 / 2, rel=1e-6)
    assert found.least == pytest.approx(1 - (1 - low[0]) - (1 - low[1]))
    both = bound_misses(configuration, works(0.9), slack=1, retries=0, requests=10)
    alone = bound_misses(one((6, 6)), works(0.9), slack=1, retries=0, requests=10)
    assert both.misses == pytest.approx(2 * alone.misses)
    # What is said is not added up: each group by its own counts, as if nothing else were asked for.
    assert "taken together" not in found.statement()
    assert split_specifications(configuration, found) == (("asked: g",), ("asked: h",))
    only = bound_misses(configuration, found, about=("asked: g",), requests=10)
    assert only.failing == pytest.approx((1 - low[0]) ** 3)
    assert only.statement().startswith("asked: g, requested alone: 2 retries")
    del counts["asked: h"]
    assert AttemptSuccess.from_counts(configuration, counts).least == 0


def test_bounds_of_several_groups_are_not_added_up_into_one_line():
    groups = {"g": ["a", "b"], "h": ["c", "d", "e"]}
    configuration = read_config(
        groups,
        *[{"condition": "asked", "group": group, "repeated": 9} for group in groups],
        conditions=[{"name": "asked"}],
    )
    counts = {"asked: g": {"asked": 24, "obeyed": 20}, "asked: h": {"asked": 23, "obeyed": 19}}
    success = AttemptSuccess.from_counts(configuration, counts)
    together = choose_retries(configuration, success)
    alone = [choose_retries(configuration, success, about=(name,)) for name in counts]
    # 39 of 47 worked in all; added up, the worst of both asks for more than can be.
    assert all(isinstance(one, RetrySettings) for one in alone)
    assert isinstance(together, Unknown)
    found = check_configuration(configuration, counts)
    assert [now.about for now in found.settings] == [("asked: g",), ("asked: h",)]
    assert list(found.smallest) == alone
    enforcer = Enforcer(configuration)
    rows = enforcer.state()
    for name, row in rows.items():
        row["counts"] |= counts[name]
    enforcer.restore(rows)
    assert f"sufficient: {choose_retries(configuration, success, in_flight=None, about=('asked: g',)).statement()}" in (
        enforcer.guarantee()
    )
    assert bound_misses(configuration, success, in_flight=None).statement() not in enforcer.guarantee()


def test_the_studio_need_not_be_described_twice():
    described = {
        "conditions": [{"name": "leader", "keywords": ["leader"]}],
        "specifications": [
            {"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 6},
            {"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": 9},
        ],
        "generator": {"kind": "studio", "bias": {"gender": {"woman": 1, "man": 3}}, "obeys": 0.9},
    }
    told = GenerationConfig.read(described).simulated
    assert told.generator == {"gender": (0.25, 0.75), "age": (1 / 3, 1 / 3, 1 / 3)}
    assert told.obeys == 0.9
    # What the simulation says itself counts.
    own = {"simulation": {"obeys": 0.5, "generator": {"gender": [0.5, 0.5]}}}
    told = GenerationConfig.read(described | own).simulated
    assert (told.obeys, told.generator["gender"]) == (0.5, (0.5, 0.5))
    assert run_policy(described, requests=50, policy="free").requests == 50


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda c: bound_misses(c, works(0.9), retries=-1), "nonnegative, got -1"),
        (lambda c: AttemptSuccess.from_counts(c, {"asked: g": {"asked": 2, "obeyed": 3}}), "3 of 2 attempts"),
    ],
)
def test_what_makes_no_sense_is_refused(broken, said):
    with pytest.raises(OptionError, match=said):
        broken(one((4, 4)))


# ---- what an enforcer says of itself


def test_a_guarantee_says_how_often_instructions_worked_and_what_follows():
    configuration = one((4, 4), retries=1, slack=1)
    enforcer = Enforcer(configuration, in_flight=1)
    random = Random(1)
    for _ in range(400):
        admission = enforcer.admit({"asked"})
        while admission is not None:
            must = admission.must.get("g")
            shown = must[0] if must and random.random() < 0.9 else "a"
            admission = enforcer.complete(admission, {"g": shown}).admission
    counts = enforcer.counts["asked: g"]
    said = enforcer.guarantee()
    assert f"{counts['obeyed']:,} of {counts['asked']:,} attempts succeeded" in said
    success = AttemptSuccess.from_counts(configuration, enforcer.counts)
    assert bound_misses(configuration, success).statement() in said
    assert "sufficient: " in said
    many = Enforcer(configuration)
    many.restore(enforcer.state())
    assert "any number in flight, slack does not help" in many.guarantee()


def test_probabilities_too_small_for_a_number_are_not_nought():
    found = bound_misses(one((90, 90)), works(0.999999), retries=60, slack=50)
    assert 0 < found.misses < 1e-250
    assert found.good_for == 10**15
    assert "e-" in found.statement()


@given(share=st.floats(1e-30, 1))
def test_bounds_are_rounded_up_to_two_digits(share):
    assert share <= float(format_at_most(share).rstrip("%")) / 100 * (1 + 1e-9) <= 1.2 * share


def pairs(beta, slack):
    """Every combination of two groups with two values each."""
    return read_config(
        {"g": ["a", "b"], "h": ["c", "d"]}, {"paired": ["g", "h"], "repeated": list(beta)}, simulation={"slack": slack}
    )


@settings(max_examples=scaled(80), deadline=None)
@given(
    mode=st.sampled_from(["before", "after"]),
    case=st.sampled_from(
        [((5, 5), 2), ((6, 7, 8), 1), ((5, 6, 6), 2), ((6, 8, 9), 3), ((6, 8, 10, 12, 16), 1), ((5, 7, 6, 9), 1)]
    ),
    paired=st.booleans(),
    seed=st.integers(0, 2**32),
    rate=st.floats(0.05, 0.9),
)
def test_failures_that_lie_far_enough_apart_miss_nothing(mode, case, paired, seed, rate):
    beta, slack = case
    paired = paired and len(beta) == 4
    configuration = pairs(beta, slack) if paired else one(beta, slack=slack)
    window = recovery(beta, slack)
    random = Random(seed)
    enforcer = Enforcer(configuration, mode=mode, in_flight=1, retries=0, seed=seed)
    (name,) = enforcer.counts
    groups = configuration.values
    chain, since, failures = 0, 1000, 0
    for _ in range(150):
        admission = enforcer.admit({"asked"})
        while admission is not None:
            left = enforcer.items_until_due()[name]
            harmful = random.choice([max(left, key=left.__getitem__), random.choice(list(left))])
            shown = dict(zip(groups, harmful.split(" + "), strict=True))
            if admission.must:
                # A failure joins those before it if it comes within the window.
                next_chain = chain + 1 if since < window else 1
                fails = next_chain <= slack and random.random() < rate
                if not fails:
                    shown = {
                        group: random.choice(admission.must.get(group, values)) for group, values in groups.items()
                    }
            if random.random() < 0.1:
                shown = dict.fromkeys(groups)
            promised = bool(admission.must)
            outcome = enforcer.complete(admission, shown)
            admission = outcome.admission
            if promised and None not in shown.values() and outcome.status == "violation":
                chain, since, failures = next_chain, 0, failures + 1
            elif outcome.slots:
                since += 1
    assert enforcer.counts[name]["missed"] == 0, (window, failures)
