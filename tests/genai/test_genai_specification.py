"""Specifications: what can be kept together, and simulations of their policies."""

from collections import Counter
from functools import lru_cache
from itertools import islice, pairwise, product
from random import Random

import pytest
from genai_reference import read_config, run_policy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.genai import Enforcer, GenerationConfig, GenerationSimulationResult, check_feasibility, simulate_requests
from evenhand.genai.simulation.result import POLICIES
from evenhand.genai.simulation.stream import SimulatedGenerator, draw_requests
from support import scaled

SMALLEST = (
    "{conditions: [{name: leader, share: 0.8}], "
    "specifications: "
    "[{condition: leader, group: age, values: [child, adult, elderly, other], repeated: [5, 6, 6, 9]}], "
    "simulation: {generator: {age: [0.05, 0.85, 0.05, 0.05]}, obeys: 0.95, unrecognised: 0.02, retries: 2, slack: 1}}"
)


def described(**changes):
    """A configuration whose only specification is changed."""
    specification = {
        "condition": "leader",
        "group": "age",
        "values": ["child", "adult", "old"],
        "repeated": 6,
    } | changes
    return {
        "conditions": [{"name": "leader"}],
        "specifications": [{name: entry for name, entry in specification.items() if entry is not None}],
    }


def test_the_smallest_configuration(tmp_path):
    path = tmp_path / "genai.yaml"
    path.write_text(SMALLEST, encoding="utf-8")
    read = GenerationConfig.read(path)
    (requirement,) = read.requirements
    assert requirement.name == "leader: age"
    assert requirement.labels == ("child", "adult", "elderly", "other")
    assert requirement.repeated == (5, 6, 6, 9)
    assert read.conditions[0].share == 0.8
    assert read.simulation.generator == {"age": (0.05, 0.85, 0.05, 0.05)}
    assert (read.simulation.obeys, read.simulation.unrecognised) == (0.95, 0.02)
    assert (read.simulation.retries, read.simulation.slack, read.simulation.in_flight) == (2, 1, 1)
    assert check_feasibility(read).feasible


def test_deadlines_by_name():
    (requirement,) = GenerationConfig.read(described(repeated={"old": 9, "child": 5, "adult": 6})).requirements
    assert requirement.repeated == (5, 6, 9)


def test_paired_groups_are_taken_apart():
    read = read_config(
        {"age": ["young", "old"], "gender": ["female", "male"], "body": ["thin", "stout", "other"]},
        {"condition": "leader", "paired": ["age", "gender", "body"], "eventual": True},
    )
    assert [one.groups for one in read.requirements] == [("age", "gender"), ("age", "body"), ("gender", "body")]
    assert sum(len(one.labels) for one in read.requirements) == 4 + 6 + 6
    assert read.requirements[0].labels == ("young + female", "young + male", "old + female", "old + male")
    assert all(one.repeated is None for one in read.requirements)
    assert check_feasibility(read).feasible
    triple = read.model_copy(update={"specifications": (read.specifications[0].model_copy(update={"ways": 3}),)})
    (three,) = GenerationConfig.read(triple.model_dump(exclude_defaults=True)).requirements
    assert len(three.labels) == 12


FAULTS = [
    (described(conditon="leader", condition=None), "no entry 'conditon'|`condition` is missing", "condition"),
    (described(condition="boss"), "no condition 'boss'", "leader"),
    (described(values=["child"]), "two or more values", None),
    (described(values=["child", "child"]), "'child' is repeated", None),
    (described(values=["child", 3]), "expected text, got 3", "values"),
    (described(values=None), "values of the group 'age' are missing", "groups"),
    (described(repeated=None), "there is no requirement", "repeated"),
    (described(repeated=0), "at least 1, got 0", "repeated"),
    (described(repeated=True), "whole number of at least 1, got True", "repeated"),
    (described(repeated="often"), "whole number of at least 1, got 'often'", "repeated"),
    (described(repeated=[5, 6]), "expected 3 deadlines, one per value", "child, adult, old"),
    (described(repeated={"child": 5, "adult": 6}), "'old' has no deadline", None),
    (described(repeated={"child": 5, "adult": 6, "elder": 7}), "no value 'elder'", "child"),
    (described(group=None), "one group or several", "paired"),
    (described(ways=2), "for paired groups", "paired"),
    (described(group=None, values=None, paired=["age"]), "ways combines 2 groups, but 1 are named", None),
    (described() | {"conditions": []}, "1 or more entries, got 0", "conditions"),
    (described() | {"conditions": [{"name": "leader", "share": 1.5}]}, "got 1.5", None),
    (described() | {"conditions": [{"name": "leader"}, {"name": "leader"}]}, "'leader' is repeated", None),
    (described() | {"simulation": {"generator": {"sex": [0.5, 0.5]}}}, "no group 'sex'", "age"),
    (described() | {"simulation": {"generator": {"age": [0.5, 0.5]}}}, "expected 3 probabilities, one per value", None),
    (described() | {"simulation": {"generator": {"age": [0.5, 0.4, 0.3]}}}, "add up to 1.2", "add up to 1"),
    (described() | {"simulation": {"slack": -1}}, "expected a whole number .*, got -1", None),
    (described() | {"specifications": [described()["specifications"][0]] * 2}, "'leader: age' is repeated", None),
    ({"conditions": [{"name": "leader"}]}, "`specifications` is missing", "specifications"),
]


@pytest.mark.parametrize(("bad", "what", "hint"), FAULTS)
def test_a_fault_is_one_clear_error(bad, what, hint):
    with pytest.raises(OptionError, match=what) as caught:
        GenerationConfig.read(bad)
    assert caught.value.location or "missing" in caught.value.message
    if hint is not None:
        assert any(word in (caught.value.hint or "") for word in hint.split("|"))


def test_what_cannot_be_kept_names_the_values_at_fault():
    found = check_feasibility(
        GenerationConfig.read(described(values=["child", "adult", "old", "other"], repeated=[2, 9, 3, 50]))
    )
    assert not found.feasible
    assert found.specifications[0].faults == ("child", "adult", "old")
    assert "child within 2, adult within 9, old within 3" in found.reason
    assert found.specifications[0].method == "exact"


def test_slack_must_be_kept_too():
    tight = GenerationConfig.read(described(repeated=3))
    assert check_feasibility(tight).feasible
    found = check_feasibility(tight, slack=1)
    assert not found.feasible
    assert "slack of 1" in found.reason


def test_what_is_not_decided_is_not_called_infeasible():
    several = [
        {"condition": name, "group": "age", "repeated": deadlines}
        for name, deadlines in (("leader", [3, 9, 20, 30, 50]), ("poor", [4, 7, 20, 40, 50]))
    ]
    read = read_config({"age": list("abcde")}, *several, conditions=[{"name": "leader"}, {"name": "poor"}])
    found = check_feasibility(read)
    assert (found.verdict, found.feasible) == ("undecided", False)
    assert [one.verdict for one in found.specifications] == ["undecided", "undecided"]
    assert "not known" in found.reason
    assert "too large to be solved" in found.reason
    with pytest.raises(OptionError, match="it is not known whether this can be kept") as caught:
        Enforcer(read)
    # The hint is one that is known to be enough.
    assert "leader: age: repeated: [9, 9, 20, 30, 50]; poor: age: repeated: [9, 9, 20, 40, 50]" in str(caught.value)
    raised = [one | {"repeated": [max(9, d) for d in one["repeated"]]} for one in several]
    assert check_feasibility(GenerationConfig.read(read.model_dump() | {"specifications": raised})).feasible


def test_one_specification_may_be_undecided_too():
    values = [str(k) for k in range(25)]
    found = check_feasibility(GenerationConfig.read(described(values=values, repeated=[24, *[200] * 24])))
    assert found.verdict == "undecided"
    assert found.hint is not None
    assert "repeated: [25, 200" in found.hint
    infeasible = described(values=[*values, "x", "y"], repeated=[1, 1, *[200] * 25])
    assert check_feasibility(GenerationConfig.read(infeasible)).verdict == "infeasible"


def test_slack_that_is_not_decided():
    # Kept without slack; with one item less for each, the game is too large.
    values = [str(k) for k in range(25)]
    found = check_feasibility(GenerationConfig.read(described(values=values, repeated=[25, *[200] * 24])), slack=1)
    assert found.verdict == "undecided"
    assert "whether these can be kept is not known" in found.reason


def test_two_conditions_on_one_group_are_judged_together():
    two = described()["specifications"][0]
    both = {"conditions": [{"name": "leader"}, {"name": "poor"}]}

    def at(deadline):
        several = [two | {"condition": name, "repeated": deadline} for name in ("leader", "poor")]
        return check_feasibility(GenerationConfig.read(both | {"specifications": several}))

    assert not at(4).feasible
    assert "together" in at(4).reason
    assert at(5).feasible
    assert [one.method for one in at(6).specifications] == ["hall", "hall"]


GROUPS = {"g": 2, "h": 2, "k": 3}
MAX_STATES = 10_000
"""Maximum number of states that the reference enumerates."""


@lru_cache(maxsize=4096)
def can_be_kept(specifications):
    """Return whether every deadline can be kept for ever, by the definition.

    A position holds, for each combination of values, the number of items left until it must appear. A request is a set
    of conditions and a set of groups that its prompt fixes. A position is lost if some request leaves no item after
    which every deadline can still be kept.
    """
    names = sorted({name for _, groups, _ in specifications for name in groups})
    conditions = sorted({condition for condition, _, _ in specifications})
    items = [dict(zip(names, values, strict=True)) for values in product(*(range(GROUPS[name]) for name in names))]
    requests = set()
    for holds in product((False, True), repeat=len(conditions)):
        for fixes in product((False, True), repeat=len(names)):
            active = {name for name, flag in zip(conditions, holds, strict=True) if flag}
            fixed = {name for name, flag in zip(names, fixes, strict=True) if flag}
            requests.add(
                tuple(condition in active and not fixed & set(groups) for condition, groups, _ in specifications)
            )

    def after(position, request, item):
        following = []
        for left, applies, (_, groups, within) in zip(position, request, specifications, strict=True):
            if applies:
                shown = 0
                for name in groups:
                    shown = shown * GROUPS[name] + item[name]
                left = tuple(within[k] if k == shown else count - 1 for k, count in enumerate(left))
            following.append(left)
        return tuple(following)

    ranges = [range(1, deadline + 1) for _, _, within in specifications for deadline in within]
    ends = [0]
    for _, _, within in specifications:
        ends.append(ends[-1] + len(within))
    safe = {tuple(flat[start:end] for start, end in pairwise(ends)) for flat in product(*ranges)}
    while True:
        kept = {
            position
            for position in safe
            if all(any(after(position, request, item) in safe for item in items) for request in requests)
        }
        if kept == safe:
            return tuple(within for _, _, within in specifications) in safe
        safe = kept


def configuration(specifications, **simulation):
    """The configuration of specifications (condition, groups, deadlines)."""
    return read_config(
        {name: [f"{name}{value}" for value in range(size)] for name, size in GROUPS.items()},
        *[
            {
                "condition": condition,
                "name": f"s{i}",
                "repeated": list(within),
                **({"group": groups[0]} if len(groups) == 1 else {"paired": list(groups), "ways": len(groups)}),
            }
            for i, (condition, groups, within) in enumerate(specifications)
        ],
        conditions=[{"name": name} for name in sorted({condition for condition, _, _ in specifications})],
        simulation={"slack": 0, **simulation},
    )


@st.composite
def joint_specifications(draw):
    """Two or three specifications that share groups; deadlines near the border of what can be kept."""
    specifications = []
    shapes = [("g",), ("h",), ("k",), ("g", "h"), ("h", "k")]
    for _ in range(draw(st.integers(2, 3))):
        groups = draw(st.sampled_from(shapes))
        values = 1
        for name in groups:
            values *= GROUPS[name]
        within = draw(st.lists(st.integers(values, values + 2), min_size=values, max_size=values))
        specifications.append((draw(st.sampled_from("cd")), groups, tuple(within)))
    states = 1
    for _, _, within in specifications:
        for deadline in within:
            states *= deadline
    assume(states <= MAX_STATES)
    return tuple(specifications)


@settings(
    max_examples=scaled(100), deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(specifications=joint_specifications())
def test_the_verdict_is_that_of_the_game(specifications):
    verdict = check_feasibility(configuration(specifications)).verdict
    assert verdict == ("feasible" if can_be_kept(specifications) else "infeasible")


NESTED = [
    (("c", ("g",), (3, 3)), ("c", ("g", "h"), (4, 4, 4, 4))),
    (("c", ("g",), (4, 3)), ("c", ("g", "h"), (5, 4, 4, 4))),
    (("c", ("g",), (2, 3)), ("c", ("h",), (2, 3)), ("c", ("g", "h"), (5, 5, 4, 4))),
]
TOO_TIGHT = [
    (("c", ("g",), (3, 3)), ("c", ("g", "h"), (4, 5, 4, 4))),
    (("c", ("g",), (3, 3)), ("d", ("g", "h"), (4, 4, 4, 4))),
    (("c", ("g",), (2, 2)), ("d", ("g",), (2, 2))),
]


@pytest.mark.parametrize("specifications", [*NESTED, *TOO_TIGHT])
def test_specifications_near_the_border(specifications):
    verdict = check_feasibility(configuration(specifications)).verdict
    assert verdict == ("feasible" if can_be_kept(specifications) else "infeasible")


@pytest.mark.parametrize("specifications", [case for case in NESTED if can_be_kept(case)])
@pytest.mark.parametrize("mode", ["before", "after"])
def test_the_enforcer_keeps_what_is_feasible(specifications, mode):
    random = Random(7)
    enforcer = Enforcer(configuration(specifications), mode=mode, in_flight=1)
    for _ in range(300):
        admission = enforcer.admit(["c"], fixed=[name for name in "gh" if random.random() < 0.2])
        while True:
            shown = {name: f"{name}{random.randrange(GROUPS[name])}" for name in "gh"}
            shown |= {group: random.choice(values) for group, values in admission.must.items()}
            outcome = enforcer.complete(admission, shown)
            if outcome.status != "retry":
                break
            admission = outcome.admission
        assert outcome.status == "ok"
    assert not enforcer.broken_assumptions


VALUES = ("child", "adult", "elderly", "other", "none")


def configured(deadlines, probabilities=None, **simulation):
    values = VALUES[: len(deadlines)]
    return {
        "conditions": [{"name": "leader", "share": simulation.pop("share", 0.8)}],
        "specifications": [
            {"condition": "leader", "group": "age", "values": list(values), "repeated": list(deadlines)}
        ],
        "simulation": {
            "generator": {"age": list(probabilities or [1 / len(values)] * len(values))},
            "retries": 0,
            **simulation,
        },
    }


UNEQUAL = [((5, 6, 6, 9), (0.1, 0.1, 0.1, 0.7)), ((6, 8, 10, 12, 16), None)]


@pytest.mark.parametrize(("deadlines", "probabilities"), UNEQUAL)
def test_tight_sets_keep_what_published_counters_miss(deadlines, probabilities):
    found = simulate_requests(configured(deadlines, probabilities), requests=8000)
    free, published, before, after = found.policies
    assert [one.policy for one in found.policies] == list(POLICIES)
    assert free.violations > published.violations > 0
    assert before.violations == after.violations == 0
    assert before.reported == after.reported == 0
    assert 0 < after.interventions < before.interventions < 8000
    assert before.generator_calls == free.generator_calls == 8000
    assert after.generator_calls == 8000 + after.interventions
    for one in (before, after):
        kept = one.specifications[0]
        assert list(kept.deadlines.values()) == list(deadlines)
        assert all(kept.longest_gap[value] <= deadline for value, deadline in kept.deadlines.items())


def test_published_counters_are_stale_when_requests_overlap():
    equal = configured((8, 8, 8, 8), (0.1, 0.1, 0.1, 0.7))
    alone, overlapping = (
        run_policy(equal, requests=5000, policy="published", in_flight=in_flight).violations for in_flight in (1, 8)
    )
    assert alone == 0
    assert overlapping > 0


def test_disobedience_is_met_by_retries_and_slack():
    described = {"obeys": 0.8, "unrecognised": 0.02}
    plain = configured((6, 8, 10, 12, 16), **described)
    again = configured((6, 8, 10, 12, 16), **described | {"retries": 2})
    reserve = configured((6, 8, 10, 12, 16), **described | {"retries": 2, "slack": 1})
    misses = [run_policy(one, requests=10_000).violations for one in (plain, again, reserve)]
    assert misses[0] > misses[1] > misses[2]
    found = run_policy(plain, requests=10_000)
    assert 150 < found.unrecognised < 250
    assert found.reported > 0


def test_several_conditions_and_groups_at_once():
    found = simulate_requests(
        {
            "conditions": [{"name": "leader", "share": 0.6}, {"name": "poor", "share": 0.5}],
            "specifications": [
                {"condition": "leader", "group": "age", "values": ["young", "old"], "repeated": 4},
                {"condition": "poor", "group": "age", "values": ["young", "old"], "repeated": [5, 7]},
                {"condition": "leader", "group": "gender", "values": ["female", "male"], "repeated": 3},
            ],
            "simulation": {"generator": {"age": [0.9, 0.1], "gender": [0.1, 0.9]}},
        },
        requests=3000,
        in_flight=5,
        policies=["free", "before", "after"],
    )
    free, before, after = found.policies
    assert [kept.name for kept in free.specifications] == ["leader: age", "poor: age", "leader: gender"]
    assert free.violations > 100
    assert before.violations == after.violations == 0
    assert set(before.longest_gap) == {"young", "old", "female", "male"}
    assert before.longest_gap["old"] == max(kept.longest_gap["old"] for kept in before.specifications[:2])


def test_eventual_counts_values_that_never_appeared():
    described = configured((3, 3, 3), (0.5, 0.5, 0.0))
    del described["specifications"][0]["repeated"]
    described["specifications"][0]["eventual"] = True
    found = run_policy(described, requests=500, policy="free")
    (kept,) = found.specifications
    assert (found.violations, kept.missed, kept.deadlines) == (1, {"child": 0, "adult": 0, "elderly": 1}, None)
    assert kept.longest_gap["elderly"] == kept.items + 1


def test_the_same_seed_gives_the_same_result():
    described = configured((5, 6, 6, 9))
    first, again, other = (run_policy(described, requests=500, in_flight=3, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_what_a_result_can_do():
    found = simulate_requests(configured((5, 6, 6, 9)), requests=500, policies=["free", "before"])
    assert GenerationSimulationResult.from_json(found.to_json()) == found
    assert list(found.to_frame()["policy"]) == ["free"] * 4 + ["before"] * 4
    assert list(found.to_frame()["deadline"]) == [5, 6, 6, 9] * 2
    assert "500 requests, 1 in flight at once" in found.summary()
    assert "deadlines missed" in found.plot().to_json()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"requests": 0}, "expected 1 to 100,000,000 requests, got 0"),
        ({"in_flight": 0}, "expected at least 1 request in flight, got 0"),
        ({"policy": "sometimes"}, "there is no policy 'sometimes'"),
    ],
)
def test_options_that_make_no_sense(options, complaint):
    with pytest.raises(OptionError, match=complaint):
        run_policy(configured((5, 6, 6, 9)), **options)


def test_a_generator_must_be_described():
    described = configured((5, 6, 6, 9))
    del described["simulation"]
    with pytest.raises(OptionError, match="the probabilities of the values of 'age' are missing") as raised:
        run_policy(described)
    assert "age: [0.25, 0.25, 0.25, 0.25]" in raised.value.hint


def test_the_generator_is_as_described():
    generator = SimulatedGenerator({"age": {"young": 0.9, "old": 0.1}}, obeys=0.75, unrecognised=0.1, seed=1)
    left_alone = Counter(generator.make()["age"] for _ in range(10_000))
    assert left_alone[None] == pytest.approx(1000, abs=120)
    assert left_alone["young"] == pytest.approx(8100, abs=160)
    told = Counter(generator.make({"age": ("old",)})["age"] for _ in range(10_000))
    assert told[None] == pytest.approx(1000, abs=120)
    assert told["old"] == pytest.approx(9000 * (0.75 + 0.25 * 0.1), abs=180)
    either = Counter(generator.make({"age": ("old", "young")})["age"] for _ in range(10_000))
    assert either["young"] == pytest.approx(8100, abs=160)


def test_a_value_that_never_appears_by_itself_appears_when_asked_for():
    generator = SimulatedGenerator({"age": {"young": 1.0, "old": 0.0, "other": 0.0}}, seed=1)
    assert {generator.make()["age"] for _ in range(100)} == {"young"}
    assert {generator.make({"age": ("old", "other")})["age"] for _ in range(100)} == {"old", "other"}


def test_requests_meet_conditions_independently():
    drawn = Counter(islice(draw_requests({"leader": 0.8, "poor": 0.3}, seed=1), 10_000))
    assert drawn[frozenset({"leader", "poor"})] == pytest.approx(2400, abs=180)
    assert drawn[frozenset()] == pytest.approx(1400, abs=150)


def test_stopping_keeps_what_was_answered():
    calls = []

    def progress(what, share):
        calls.append((what, share))
        if len(calls) == 2:
            raise KeyboardInterrupt

    found = simulate_requests(
        configured((5, 6, 6, 9)), requests=10_000, in_flight=9, policies=["free", "after"], progress=progress
    )
    assert calls == [("simulating free", 0.2), ("simulating free", 0.4)]
    assert [one.policy for one in found.policies] == ["free"]
    assert found.interrupted
    assert found.policies[0].requests == 4000
    assert "CAUTION: Interrupted" in found.summary()
