"""TestSGD as published: the loop, the perturbation, the rates it converges to, and what its interval is worth."""

import itertools

import numpy as np
import pytest
from deciders import SCHEMA, Decider, people
from hypothesis import given
from hypothesis import strategies as st

from evenhand import subgroups
from evenhand.errors import LimitError, OptionError
from evenhand.schema import encode
from evenhand.subgroups import find_members
from evenhand.subgroups.family import build_family, cut_attributes
from evenhand.subgroups.methods import sampled
from evenhand.subgroups.methods.published import StoppingRule, sample_until_margin, summed_margin
from evenhand.subgroups.methods.sampled import frequent_rule_sets
from evenhand.subgroups.perturbation import Perturbation
from support import small_schema

SENSITIVE = ("sex", "race", "age")
Z = 1.959963984540054


# The published numbers


def test_margins_of_the_published_example():
    """283 and 91 of 1,000: margins 0.028 and 0.018, together 0.046."""
    for k, margin in ((283, 0.028), (91, 0.018)):
        assert round(float(summed_margin(np.array([k]), np.array(1000), 1.96)), 3) == margin
    assert round(float(summed_margin(np.array([283, 91]), np.array(1000), 1.96)), 3) == 0.046


def stream(outcomes):
    """Draws that go through given outcomes, by question and side; and the model that gives them back."""
    at = {}

    def draw(question, side, n, rng):
        start = at.get((question, side), 0)
        at[question, side] = start + n
        return np.array([outcomes(question, side, i) for i in range(start, start + n)])

    return draw, lambda samples: samples.astype(bool)


def test_margin_is_first_looked_at_after_more_than_a_thousand():
    draw, ask = stream(lambda question, side, i: 0)
    seen = sample_until_margin(1, 2, draw, ask, rule=StoppingRule(1000, 0.05, Z), seed=0)
    assert seen.n.tolist() == [1001]
    assert seen.margins.tolist() == [0.0]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4),
    st.integers(1, 60),
    st.floats(0.1, 0.5),
    st.integers(0, 99),
)
def test_blocks_stop_where_single_draws_would(rates, more_than, margin, seed):
    table = np.random.default_rng(seed).random((len(rates), 2, 4000)) < np.array(rates)[:, :, None]
    draw, ask = stream(lambda question, side, i: table[question, side, i])
    seen = sample_until_margin(len(rates), 2, draw, ask, rule=StoppingRule(more_than, margin, Z), seed=0)
    for question, (inside, outside) in enumerate(table):
        k1 = k2 = 0
        for n in itertools.count(1):
            k1, k2 = k1 + int(inside[n - 1]), k2 + int(outside[n - 1])
            p1, p2 = k1 / n, k2 / n
            reached = Z * (p1 * (1 - p1) / n) ** 0.5 + Z * (p2 * (1 - p2) / n) ** 0.5
            if n > more_than and reached <= margin:
                break
        assert (seen.n[question], *seen.k[question]) == (n, k1, k2)


# The perturbation


def test_nudge_moves_one_attribute_one_step_and_no_sensitive_one():
    rows = people(2000).individuals
    nudged = Perturbation(SCHEMA, SENSITIVE)(rows, np.random.default_rng(0))
    moved = nudged - rows
    assert ((moved != 0).sum(axis=1) <= 1).all()
    assert not moved[:, :3].any()
    assert set(np.abs(moved[:, 3]).tolist()) == {0.0, 1.0}
    steps = np.abs(moved[:, 4])[moved[:, 4] != 0]
    assert np.isclose(steps, 0.01).sum() > 0.9 * len(steps)  # the others were stopped by the domain's end
    assert all(attribute.contains(nudged[:, i]).all() for i, attribute in enumerate(SCHEMA.attributes))


def every_nudge(nudge, person):
    """Every outcome for one person, all equally likely."""
    moved = [
        np.where(np.arange(len(person)) == column, np.clip(person + sign * step, first, last), person)
        for sign in (-1, 1)
        for column, step, first, last in zip(nudge.columns, nudge.steps, nudge.first, nudge.last, strict=True)
    ]
    return np.array(moved or [person])


def test_nudges_are_those_listed_with_equal_chances():
    nudge = Perturbation(SCHEMA, SENSITIVE)
    person = np.array([0.0, 1.0, 40.0, 5.0, 0.5, 0.0])
    outcomes = every_nudge(nudge, person)
    assert len(outcomes) == 6
    assert outcomes[0].tolist() == [0, 1, 40, 4, 0.5, 0]
    assert outcomes[2].tolist() == person.tolist()  # no job before the first
    seen, counts = np.unique(nudge(np.tile(person, (60_000, 1)), np.random.default_rng(1)), axis=0, return_counts=True)
    expected, of = np.unique(outcomes, axis=0, return_counts=True)
    assert seen.tolist() == expected.tolist()
    assert np.abs(counts / 60_000 - of / 6).max() < 0.01


def test_missing_values_stay_missing():
    schema = small_schema(sex="f m", pay={"kind": "integer", "lower": 0, "upper": 5, "missing": "keep"})
    assert np.isnan(Perturbation(schema, ["sex"])(np.array([[0.0, np.nan]]), np.random.default_rng(0))[0, 1])


# The method


def enumerated(model, everybody, rules, sensitive):
    """The exact gap among the people, each nudged in every way."""
    nudge, inside = Perturbation(everybody.schema, sensitive), find_members(everybody, rules)
    rates = [
        np.mean([model.decide(every_nudge(nudge, person)).mean() for person in everybody.individuals[side]])
        for side in (inside, ~inside)
    ]
    return rates[0] - rates[1]


def test_sampled_gaps_are_those_of_the_enumerated_perturbation():
    everybody = people(60, seed=3)
    model = Decider(lambda rows: rows[:, 3] + (rows[:, 0] == 0) >= 5 + 2 * (rows[:, 5] == 1))
    result = subgroups.find_subgroups(
        model, everybody, attributes=("sex", "race"), method="sampled", margin=0.02, support=0.1
    )
    assert result.tested == len(result.findings) > 10
    for finding in result.findings:
        exact = enumerated(model, everybody, finding.rules, SENSITIVE)
        assert abs(finding.gap - exact) <= 0.02 * 1.5, finding.words
    inside = sum(f.low <= enumerated(model, everybody, f.rules, SENSITIVE) <= f.high for f in result.findings)
    assert inside >= 0.9 * len(result.findings)  # the summed margin covers more than it states


def test_result_states_what_was_done():
    everybody = people(400, seed=1)
    model = Decider(lambda rows: rows[:, 3] >= 5)
    result = subgroups.find_subgroups(model, everybody, method="sampled", attributes=("sex", "race"))
    assert (result.method, result.control, result.critical) == ("sampled", "none", None)
    assert result.confidence == pytest.approx(0.9025)
    assert result.people == 400
    assert result.rule_sets == (1 + 2) * (1 + 6) - 1
    gaps = [abs(finding.gap) for finding in result.findings]
    assert gaps == sorted(gaps, reverse=True)
    for finding in result.findings:
        assert (finding.z, finding.adjusted_p, finding.positives) == (None, None, None)
        assert 1001 <= finding.samples <= 1537
        assert finding.size == find_members(everybody, finding.rules).sum()
        assert finding.found == (finding.low > 0 or finding.high < 0)
        assert "samples of" in result.sentence(finding)
    assert subgroups.SubgroupResult.from_json(result.to_json()) == result
    assert "not corrected for the" in " ".join(result.notes)


@given(st.integers(0, 1000), st.integers(1, 3), st.sampled_from([0.0, 0.05, 0.3]))
def test_frequent_rule_sets_by_enumeration(seed, depth, support):
    everybody = people(40, seed=seed)
    cuts, codes = cut_attributes(everybody, SENSITIVE, 3)
    rules = build_family(cuts, depth)
    expected = {}
    for chosen in itertools.product(*(range(len(rows)) for rows in rules.rules)):
        size = int(find_members(everybody, rules.describe(chosen)[0]).sum())
        if 1 <= sum(row > 0 for row in chosen) <= depth and max(1, support * 40) <= size < 40:
            expected[chosen] = size
    chosen, sizes = frequent_rule_sets(codes, rules, support, max_rule_sets=100_000)
    assert dict(zip(map(tuple, chosen.tolist()), sizes.tolist(), strict=True)) == expected
    few, _ = frequent_rule_sets(codes, rules, support, max_rule_sets=7)
    assert few.tolist() == chosen[:7].tolist()


def test_too_many_rule_sets_are_refused_or_left_out(monkeypatch):
    schema = small_schema(**{f"a{i}": (0.0, 1.0) for i in range(8)})
    everybody, model = people(300, schema=schema), Decider(lambda rows: rows[:, 0] > 0.5, schema)

    def search(names=schema.names, **options):
        return subgroups.find_subgroups(model, everybody, attributes=names, method="sampled", **options)

    for options in ({}, {"depth": 3}):
        with pytest.raises(OptionError, match="too many"):
            search(**options)
    with monkeypatch.context() as patched:
        patched.setattr(sampled, "MOST_RULE_SETS", 20)
        timed = search(depth=3, time_limit=1000)
    assert (timed.tested, timed.interrupted) == (20, True)
    alone = search(schema.names[:3], depth=1, support=0.3)
    assert 0 < alone.tested < 165
    assert not alone.interrupted


def test_same_seed_same_samples():
    everybody, model = people(200), Decider(lambda rows: rows[:, 3] >= 5)
    first, again, other = (
        subgroups.find_subgroups(model, everybody, method="sampled", attributes=("sex",), seed=seed).findings
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def fair_worlds(count):
    """People and decisions that have nothing to do with sensitive attributes."""
    for seed in range(count):
        everybody = people(300, seed=seed)
        luck = np.random.default_rng(1000 + seed).random((10, 3)) < 0.5
        yield seed, everybody, Decider(lambda rows, luck=luck: luck[rows[:, 3].astype(int), rows[:, 5].astype(int)])


@pytest.mark.full
def test_published_intervals_call_fair_models_unfair_and_exact_ones_do_not():
    published = exact = 0
    for seed, everybody, model in fair_worlds(8):
        sampled = subgroups.find_subgroups(model, everybody, method="sampled", attributes=SENSITIVE, seed=seed, bins=5)
        published += sampled.found > 0
        exact += subgroups.find_subgroups(model, everybody, attributes=SENSITIVE, seed=seed, bins=5).found > 0
    assert published == 8
    assert exact <= 1


def test_time_limit_before_anything_is_an_error():
    with pytest.raises(LimitError):
        subgroups.find_subgroups(Decider(lambda rows: rows[:, 3] > 5), people(100), method="sampled", time_limit=1e-9)


def test_interrupt_before_anything_is_an_interrupt():
    def impatient(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        subgroups.find_subgroups(Decider(impatient), people(100), method="sampled", attributes=SENSITIVE)


def test_interrupt_keeps_what_was_sampled():
    calls = itertools.count()

    def impatient(rows):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return rows[:, 3] >= 5

    result = subgroups.find_subgroups(Decider(impatient), people(500), method="sampled", attributes=SENSITIVE)
    assert result.interrupted
    assert 0 < result.tested == len(result.findings) < result.rule_sets


@pytest.mark.parametrize(
    "options", [{"measure": "score"}, {"measure": "false-positive"}, {"per": "job"}, {"min_size": 5}], ids=str
)
def test_options_the_publication_does_not_know_are_refused(options):
    everybody, model = people(100, truth=True), Decider(lambda rows: rows[:, 3] > 5)
    with pytest.raises(OptionError):
        subgroups.find_subgroups(model, everybody, method="sampled", **options)


# Who a rule set holds


def test_members_with_missing_values():
    pay = {"kind": "integer", "lower": 0, "upper": 5, "missing": "keep"}
    schema = small_schema(pay=pay, job={"kind": "categorical", "values": ["x", "z"], "missing": "keep"})
    import pandas as pd

    everybody = encode(schema, pd.DataFrame({"pay": [1, None, 5], "job": ["x", "z", None]}))
    assert find_members(everybody, {"pay": ("missing",)}).tolist() == [False, True, False]
    assert find_members(everybody, {"pay": subgroups.Range(low=1)}).tolist() == [True, False, True]
    assert find_members(everybody, {"job": ("x", "missing")}).tolist() == [True, False, True]
