"""An audit of people whose schema has rules: the plausible rate first, the published beside it, a gate on each."""

import numpy as np
import pandas as pd
import pytest

from evenhand import auditing, datasets, view
from evenhand.auditing import AuditConfig, audit
from evenhand.individual import FlipConfig, measure_flips
from evenhand.models import Subject, load_model
from evenhand.population import uniform_population
from evenhand.schema import Schema, encode

SCHEMA = Schema.parse(
    {
        "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {"name": "role", "kind": "categorical", "values": ["single", "husband", "wife"]},
            {"name": "grade", "kind": "integer", "lower": 0, "upper": 4},
        ],
        "rules": ["role == husband -> sex == m", "role == wife -> sex == f"],
        "links": [{"when": "sex", "move": "role", "rows": [{"m": "husband", "f": "wife"}]}],
    }
)


def model(frame: pd.DataFrame) -> np.ndarray:
    """Hires by grade, and women rather than men unless they are wives: only a female husband would gain by it."""
    points = frame["grade"] + ((frame["sex"] == "f") & (frame["role"] == "husband"))
    return np.where(points + 0.0 * points > 2, "yes", "no")


@pytest.fixture(scope="module")
def subject():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 400)
    role = np.where(rng.random(400) < 0.5, "single", np.where(sex == "m", "husband", "wife"))
    frame = pd.DataFrame({"sex": sex, "role": role, "grade": rng.integers(0, 5, 400)})
    frame["hired"] = np.where(frame["grade"] + rng.integers(0, 2, 400) > 2, "yes", "no")
    frame.loc[0, ["sex", "role"]] = ["f", "husband"]  # an error in the data
    return Subject(model, encode(SCHEMA, frame), "people", "by grade")


@pytest.fixture(scope="module")
def result(subject):
    return audit(subject, AuditConfig(time_limit=4, samples=500, searched=0))


def test_the_plausible_rate_is_the_headline(result):
    (rate,) = [one for one in result.individual.rates if one.over == "data"]
    husbands = rate.flips
    assert husbands > 20
    assert rate.counterfactual.flips == 0
    assert rate.counterfactual.breaking == 1
    assert rate.counterfactual.implausible == husbands
    assert (result.counterfactual_flip_rate, result.flip_rate) == (0.0, husbands / 400)
    summary = result.summary()
    assert "plausible counterparts: 399 of 400" in summary
    assert "100 % of these flips need a person who breaks a rule" in summary
    page = view.render_page(result.document())
    assert "plausible counterpart" in page
    assert "as published" in page
    assert auditing.AuditResult.from_json(result.to_json()) == result


def test_each_rate_has_its_gate(result):
    published = result.flip_rate
    for name, value in (("counterfactual_flip_rate", 0.0), ("flip_rate", published), ("violation_rate", published)):
        for words in (name, f"{name}.sex"):
            assert auditing.parse_gate(f"{words} >= {value}").holds(result)
            assert not auditing.parse_gate(f"{words} > {value}").holds(result)


def test_as_published_counts_as_before(subject, result):
    published = audit(subject, AuditConfig(time_limit=4, samples=500, searched=0, as_published=True))
    (rate,) = [one for one in published.individual.rates if one.over == "data"]
    assert rate.counterfactual is None
    assert rate.flips == round(400 * result.flip_rate)
    assert published.counterfactual_flip_rate == published.flip_rate == result.flip_rate
    assert "plausible counterparts" not in published.summary()


def test_the_adult_example_against_an_independent_count():
    """The published counting says 9.10 %; of those flips 92 % need a person who breaks a rule. Counted in words."""
    data = datasets.load_dataset("adult")
    model, held_out = auditing.train_example(data)
    people = encode(data.schema, held_out)
    found = measure_flips(
        load_model(model, data.schema),
        people,
        uniform_population(data.schema),
        FlipConfig(protected=("sex",), samples=50),
    ).rate(("sex",), "data")
    published = {sex: held_out.assign(sex=sex) for sex in ("Female", "Male")}
    ties = {"Female": {"Husband": "Wife"}, "Male": {"Wife": "Husband"}}
    plausible = {sex: frame.replace({"relationship": ties[sex]}) for sex, frame in published.items()}
    flips, counterfactual = (
        np.not_equal(*(model.predict(frame[list(data.schema.names)]) for frame in both.values()))
        for both in (published, plausible)
    )
    couple = held_out["relationship"].isin(["Husband", "Wife"]).to_numpy()
    breaking = (held_out["sex"] == "Male") & (held_out["relationship"] == "Wife")
    breaking |= (held_out["sex"] == "Female") & (held_out["relationship"] == "Husband")
    assert (rate := found.counterfactual) is not None
    assert (found.flips, found.n) == (int(flips.sum()), len(held_out)) == (1482, 16_281)
    assert (rate.flips, rate.n) == (int(counterfactual[~breaking].sum()), int((~breaking).sum())) == (1002, 16_280)
    assert (rate.breaking, rate.without) == (int(breaking.sum()), 0) == (1, 0)
    assert rate.implausible == int(flips[couple].sum()) == 1363
