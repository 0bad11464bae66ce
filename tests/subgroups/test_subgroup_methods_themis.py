"""THEMIS's group discrimination score against enumeration of the domain."""

import itertools

import numpy as np
import pandas as pd
import pytest
from deciders import SCHEMA, Decider, people
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import subgroups
from evenhand.errors import LimitError, OptionError
from evenhand.schema import Attribute, Schema, Target, encode
from support import scaled

FINITE = Schema(
    target=Target(name="loan", favourable="yes", values=("no", "yes")),
    attributes=(
        Attribute(name="sex", kind="categorical", values=("f", "m"), protected=True),
        Attribute(name="age", kind="integer", lower=20, upper=39, protected=True),
        Attribute(name="income", kind="integer", lower=0, upper=4),
        Attribute(name="job", kind="categorical", values=("x", "y", "z")),
    ),
)


def enumerated(table, bins):
    """The favourable rate of every combination of sex and bin of age, over the whole domain: {(sex, bin): rate}."""
    rates = {}
    for sex, part in itertools.product(range(2), range(bins)):
        ages = [age for age in range(20) if age * bins // 20 == part]
        rates[sex, part] = table[sex, ages].mean()
    return rates


@settings(max_examples=scaled(8))
@given(st.integers(0, 10_000))
def test_score_is_that_of_the_enumerated_domain(seed):
    rng = np.random.default_rng(seed)
    table = rng.random((2, 20, 5, 3)) < rng.random((2, 1, 5, 1))

    def decide(rows):
        sex, age, income, job = rows.astype(int).T
        return table[sex, age - 20, income, job]

    everybody = people(300, schema=FINITE)
    result = subgroups.find_subgroups(Decider(decide, FINITE), everybody, method="themis", bins=2)
    rates = enumerated(table, 2)
    exact = max(rates.values()) - min(rates.values())
    score = -result.findings[0].gap
    assert abs(score - exact) <= 0.03  # both rates to within 0.01, with 99 % confidence each
    by = {(f.rules["sex"], f.rules["age"].low is not None): f.rate for f in result.findings}
    best = result.findings[0].versus
    by[best["sex"], best["age"].low is not None] = result.findings[0].rest_rate
    assert len(by) == 4
    for (sex, later), rate in by.items():
        assert abs(rate - rates[("f", "m").index(sex[0]), int(later)]) <= 0.015


def test_worked_example():
    """Women get it with an income of 3 or 4 (2 of 5), men with 1 to 4 (4 of 5): a score of 0.4."""
    model = Decider(lambda rows: rows[:, 2] >= np.where(rows[:, 0] == 0, 3, 1), FINITE)
    result = subgroups.find_subgroups(model, people(50, schema=FINITE), method="themis", attributes=("sex",))
    (women,) = result.findings
    assert women.rules == {"sex": ("f",)}
    assert women.versus == {"sex": ("m",)}
    assert women.gap == pytest.approx(-0.4, abs=0.02)
    assert women.low <= -0.4 <= women.high
    assert women.found
    assert women.samples <= 16_588
    assert result.against == "best"
    assert "Group discrimination score" in result.notes[0]
    assert "of sex m" in result.sentence(women)
    assert subgroups.SubgroupResult.from_json(result.to_json()) == result


def test_sampling_stops_at_the_published_margin():
    """At a rate of 1/2 a margin of 0.01 with 99 % confidence takes (2.576 / 0.02)^2 = 16,588 samples."""
    model = Decider(
        lambda rows: rows[:, 3] < 0.5,
        Schema(
            target=SCHEMA.target,
            attributes=(
                Attribute(name="sex", kind="categorical", values=("f", "m")),
                Attribute(name="age", kind="integer", lower=18, upper=77),
                Attribute(name="race", kind="categorical", values=("a", "b")),
                Attribute(name="debt", kind="real", lower=0.0, upper=1.0),
            ),
        ),
    )
    result = subgroups.find_subgroups(model, people(50, schema=model.schema), method="themis", attributes=("sex",))
    for finding in result.findings:
        assert 16_500 <= finding.samples <= 16_588


def test_inputs_are_uniform_in_the_domain_whatever_the_people_are():
    frame = pd.DataFrame({"sex": ["f", "m"] * 20, "age": [30, 31] * 20, "income": [1] * 40, "job": ["x"] * 40})
    model = Decider(lambda rows: rows[:, 2] == 4, FINITE)
    result = subgroups.find_subgroups(model, encode(FINITE, frame), method="themis", attributes=("sex", "age"))
    asked = model.questions[:-40]  # the last are the people themselves
    assert set(asked[:, 2].tolist()) == {0, 1, 2, 3, 4}
    assert set(asked[:, 1].tolist()) == {30, 31}
    assert result.rule_sets == 4
    assert sum(finding.size == 0 for finding in result.findings) + (result.findings[0].rest == 0) == 2
    assert "2 of the combinations have no data" in result.notes[1]


def test_real_numbers_are_drawn_inside_their_bin():
    everybody, model = people(200), Decider(lambda rows: rows[:, 4] > 0.5)
    result = subgroups.find_subgroups(model, everybody, method="themis", attributes=("debt",), bins=2)
    (worst,) = result.findings
    assert (worst.rate, worst.rest_rate) == (0.0, 1.0)


def test_too_many_combinations_are_refused():
    attributes = tuple(Attribute(name=f"a{i}", kind="integer", lower=0, upper=9) for i in range(6))
    schema = Schema(target=SCHEMA.target, attributes=attributes)
    with pytest.raises(OptionError, match="combinations"):
        subgroups.find_subgroups(
            Decider(lambda rows: rows[:, 0] > 5, schema),
            people(200, schema=schema),
            method="themis",
            attributes=schema.names[:5],
        )


@pytest.mark.parametrize("options", [{"measure": "score"}, {"support": 0.1}, {"confidence": 0.9}], ids=str)
def test_options_the_publication_does_not_know_are_refused(options):
    with pytest.raises(OptionError):
        subgroups.find_subgroups(Decider(lambda rows: rows[:, 3] > 5), people(100), method="themis", **options)


def test_time_limit_before_anything_is_an_error():
    with pytest.raises(LimitError):
        subgroups.find_subgroups(Decider(lambda rows: rows[:, 3] > 5), people(100), method="themis", time_limit=1e-9)
