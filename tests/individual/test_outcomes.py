"""Different decisions that a person can get: against one person at a time, with counterparts, in audits and gates."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand
from evenhand.auditing import AuditResult, measure_values, parse_gate
from evenhand.errors import OptionError
from evenhand.individual import OutcomeResult, count_outcomes
from evenhand.models import load_model, load_regressor
from evenhand.population import uniform_population
from evenhand.schema import ColumnRoles
from support import scaled


@settings(deadline=None, max_examples=scaled(25))
@given(
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
)
def test_bands_of_a_number_person_by_person(table: list[int], edges: list[int]) -> None:
    """Two attributes of three and two values; a number for each of the six kinds of people."""
    kinds = list(itertools.product("abc", "xy"))
    number = dict(zip(kinds, table, strict=True))
    frame = pd.DataFrame(kinds * 3, columns=["race", "city"]).assign(premium=np.arange(18.0))
    people = ColumnRoles(target="premium", protected=["race"]).read(frame)

    def premium(rows: pd.DataFrame) -> list[float]:
        return [float(number[race, city]) for race, city in zip(rows["race"], rows["city"], strict=True)]

    bands = tuple(float(edge) for edge in sorted(edges))
    model = load_regressor(premium, people.schema, like=people.frame)
    found = count_outcomes(
        model, people, uniform_population(people.schema), protected=("race",), bands=bands, samples=10
    )
    expected = [len({sum(number[race, city] >= edge for edge in bands) for race in "abc"}) for city in frame["city"]]
    data = found.counts[0]
    assert (data.n, data.without) == (18, 0)
    assert set(data.rates) == set(range(2, 1 + min(3, len(bands) + 1)))
    for least, rate in data.rates.items():
        assert getattr(rate, "value", None) == pytest.approx(np.mean([k >= least for k in expected]))
    assert OutcomeResult.from_json(found.to_json()) == found


def labels_of_three() -> tuple[pd.DataFrame, object]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 10, 300), "race": rng.choice([*"abc"], 300)})

    def decide(rows: pd.DataFrame) -> np.ndarray:
        high = (rows["age"] >= 5).to_numpy()
        return np.where(high, rows["race"].map({"a": "no", "b": "maybe", "c": "yes"}), "no")

    return frame.assign(loan=decide(frame)), decide


def test_labels_by_hand() -> None:
    frame, decide = labels_of_three()
    people = ColumnRoles(target="loan", protected=["race"], favourable="yes", unfavourable=["no", "maybe"]).read(frame)
    model = load_model(decide, people.schema, like=people.frame)
    found = count_outcomes(model, people, uniform_population(people.schema), protected=("race",), samples=100)
    share = float((frame["age"] >= 5).mean())
    assert {least: getattr(rate, "value", None) for least, rate in found.counts[0].rates.items()} == {
        2: share,
        3: share,
    }
    text = found.to_markdown()
    assert "can get two or more different labels" in text
    with pytest.raises(OptionError, match="labels only"):
        count_outcomes(model, people, uniform_population(people.schema), protected=("race",), bands=(0.5,))


def test_an_audit_of_numbers_counts_bands_and_gates_on_them() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 300), "male": rng.integers(0, 2, 300)})
    premium = 5.0 * frame["age"] + 30.0 * frame["male"]
    model = LinearRegression().fit(frame, premium)
    found = evenhand.audit(model, frame, premium, protected=["male"], bands=(150.0, 200.0), samples=500)
    own = 5 * frame["age"]
    crossing = sum(((own < edge) & (own + 30 >= edge)).mean() for edge in (150, 200))
    values = measure_values(found)
    assert values["outcomes_2"]["male"].value == pytest.approx(crossing)
    assert parse_gate(f"outcomes_2.male > {crossing - 0.01} and population_outcomes_2 > 0").holds(found)
    proved = found.outcome_certificate.outcomes[0]
    everybody = np.arange(frame["age"].min(), frame["age"].max() + 1)
    shares = frame["age"].value_counts(normalize=True)
    possible = sum(
        shares.get(age, 0) for age in everybody if any(5 * age < edge <= 5 * age + 30 for edge in (150, 200))
    )
    assert proved.proved <= possible + 1e-9
    assert possible - 1e-9 <= proved.possible
    assert parse_gate("proved_outcomes_2.male > 0 and possible_outcomes_2 < 1").holds(found)
    assert "can get two or more different bands" in found.to_markdown()
    assert AuditResult.from_json(found.to_json()) == found
    with pytest.raises(OptionError, match="increasing order"):
        evenhand.audit(model, frame, premium, protected=["male"], bands=(200.0, 150.0))


def test_an_audit_of_labels_proves_bands_of_the_score() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"skill": rng.integers(0, 10, 300), "female": rng.integers(0, 2, 300)})
    hired = (frame["skill"] - 2 * frame["female"] > 3).astype(int)
    model = LogisticRegression().fit(frame, hired)
    about = {"protected": ["female"], "searched": 0, "samples": 500, "max_boxes": 500}
    found = evenhand.audit(model, frame, hired, **about, bands=(0.3, 0.6))
    scores = np.stack([model.predict_proba(frame.assign(female=value))[:, 1] for value in (0, 1)], axis=1)
    different = (np.digitize(scores[:, 0], [0.3, 0.6]) != np.digitize(scores[:, 1], [0.3, 0.6])).mean()
    values = measure_values(found)
    assert values["outcomes_2"]["female"].value == pytest.approx(different)
    proved, possible = (values[f"{which}_outcomes_2"]["female"] for which in ("proved", "possible"))
    assert 0 < proved <= possible < 1
    # The simulated population is the data's by its marginals: what is drawn from it lies between what is proved.
    estimate = values["population_outcomes_2"]["female"]
    assert estimate.high >= proved
    assert estimate.low <= possible
    with pytest.raises(OptionError, match="scores between 0 and 1"):
        evenhand.audit(model, frame, hired, **about, bands=(600.0, 700.0))
