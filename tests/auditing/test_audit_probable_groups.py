"""Audits of a model by groups known by probability equal those of its recorded decisions."""

import numpy as np
import pandas as pd
import pytest

import evenhand
from evenhand.auditing import parse_gate
from evenhand.auditing.gates.conditions import measure_values
from evenhand.errors import OptionError


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"skill": rng.integers(0, 10, 900), "female": rng.integers(0, 2, 900)})
    frame["hired"] = (frame["skill"] - frame["female"] + rng.normal(0, 2, 900) > 4).astype(int)
    chance = np.clip(rng.beta(2, 2, 900) + 0.1 * frame["female"], 0, 1)
    return frame, {"race": {"a": chance, "b": 1 - chance}}, rng.gamma(2.0, size=900).round(2) + 0.01, rng


def decide(table):
    return (table["skill"] - 2 * table["female"] > 3).astype(int)


def audit(frame, **settings):
    settings = {"max_boxes": 20, "samples": 50, "searched": 0} | settings
    return evenhand.audit(decide, frame, target="hired", protected=["female"], **settings)


def test_groups_known_by_probability_are_those_of_the_decisions(case):
    frame, membership, weights, _ = case
    beside = {"membership": membership, "sample_weight": weights}
    model = audit(frame, **beside)
    decided = evenhand.audit_predictions(
        decide(frame), y_true=frame["hired"], sensitive_features=frame[["female"]], favourable=1, **beside
    )
    assert model.groups.proxies == decided.groups.proxies
    assert model.described.names == ("skill", "female")


def test_probabilities_are_refused_where_a_number_is_decided(case):
    frame, membership, _, _ = case
    with pytest.raises(OptionError, match="contains numbers"):
        evenhand.audit(decide, frame, target="hired", protected=["female"], kind="number", membership=membership)


def test_gates_name_what_is_weighted_and_what_is_probable(case):
    frame, membership, weights, _ = case
    result = audit(frame, membership=membership, sample_weight=weights)
    values, proxies = measure_values(result), result.groups.proxies[0]
    decided = decide(frame)
    rates = [np.average(decided[frame["female"] == sex], weights=weights[frame["female"] == sex]) for sex in (0, 1)]
    assert values["demographic_parity_difference"]["female"].value == pytest.approx(rates[0] - rates[1])
    (gap,), found = proxies.gaps, values["probable_selection_rate_difference"]["race"]
    estimates = {group.label: group.metrics["selection_rate"].value for group in proxies.groups}
    rates = [estimates[group] for group in (gap.best, gap.worst)]
    assert found == gap.value
    assert found.value == pytest.approx(rates[0] - rates[1])
    assert 0 <= found.low <= found.value <= found.high
    ends = values["bounded_selection_rate_difference"]["race"]
    assert ends == gap.bounds
    assert 0 <= ends.low <= found.value <= ends.high
    high = values["bounded_selection_rate_difference"]["race"].high
    assert parse_gate(f"bounded_selection_rate_difference.race.high >= {high - 1e-9}").holds(result)
    assert not parse_gate(f"bounded_selection_rate_difference.race.high > {high + 1e-9}").holds(result)
    assert not parse_gate("bounded_selection_rate_difference.low > 0.9").holds(result)
    with pytest.raises(OptionError, match="has only bounds"):
        parse_gate("bounded_selection_rate_difference.race > 0.1").holds(result)


def test_gates_fail_on_probable_groups_that_are_too_small(case):
    frame, membership, _, _ = case
    rare = (np.arange(len(frame)) < 9).astype(float)
    race = {name: chance * (1 - rare) for name, chance in membership["race"].items()} | {"rare": rare}
    three, two = audit(frame, membership={"race": race}), audit(frame, membership={"race": {"a": rare, "b": 1 - rare}})
    gate = parse_gate("probable_selection_rate_difference.race > 0.99")
    assert not gate.holds(three)
    (reason,) = gate.not_assessable(three)
    assert reason.endswith("fewer than 30 people to count in rare (9)")
    gate = parse_gate("bounded_selection_rate_difference.race.high > 0")
    assert not gate.holds(two)
    assert gate.not_assessable(two)
