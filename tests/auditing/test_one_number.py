"""The share of a population that is decided differently is one quantity: an audit shows one number for it."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand import auditing, datasets, individual
from evenhand.core.document import Metric
from evenhand.models import Subject
from evenhand.population import fit_mixture, product_of_marginals
from evenhand.schema import Schema, counterparts_of, encode
from evenhand.schema.people import ColumnRoles
from evenhand.stats import combined_share
from evenhand.stats.combined import Draws, OpenPart


@pytest.fixture(scope="module")
def result() -> auditing.AuditResult:
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame({name: rng.normal(size=n).round(3) for name in "abcd"} | {"sex": rng.choice(["f", "m"], n)})
    merit = frame[list("abcd")].sum(axis=1) + 0.6 * (frame["sex"] == "m")
    frame["hired"] = np.where(merit + rng.normal(0, 0.5, n) > 0, "yes", "no")
    encoder = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression()).fit(frame.drop(columns="hired"), frame["hired"])
    people = ColumnRoles("hired", ["sex"]).read(frame)
    return auditing.audit(Subject(model, people), auditing.AuditConfig(time_limit=60, samples=1500, searched=0))


def shown(result: auditing.AuditResult) -> list[str]:
    """What the first screen says of the simulated population, in the flip rate's line and in the proof's."""
    metrics = [block for block in result.document().blocks if isinstance(block, Metric) and block.about]
    said = " ".join(line for metric in metrics for line in metric.notes)
    return re.findall(r"[\d.]+ %, estimated, 95 % interval [\d.]+ to [\d.]+ %", said)


def test_flip_rate_and_certificate_are_one_estimate(result):
    (certificate,) = result.certificates
    assert certificate.undecided > 0
    rate = result.individual.rate(("sex",), "population").rate
    estimate = certificate.estimate
    assert (rate.value, rate.low, rate.high) == (estimate.unfair, estimate.low, estimate.high)
    assert (rate.confidence, rate.n) == (0.95, estimate.n)
    assert certificate.falsified <= rate.low <= rate.value <= rate.high <= 1 - certificate.certified
    assert result.individual.rate(("sex",), "data").rate.kind == "observed"


def test_every_draw_counts_once(result):
    (certificate,) = result.certificates
    sources = {one.source: one for one in certificate.evidence}
    flips = result.individual.rate(("sex",), "population")
    assert (sources["flip rate"].unfair, sources["flip rate"].n) == (flips.flips, flips.n) == (flips.flips, 1500)
    assert set(sources) == {"undecided", "breakdown", "flip rate"}
    assert certificate.estimate.n == sum(one.n for one in certificate.evidence)
    # More evidence, a narrower interval than that of the draws for the flip rate alone.
    alone = combined_share(Draws(flips.flips, flips.n), Draws())
    assert certificate.estimate.high - certificate.estimate.low < alone[2] - alone[1]
    part = OpenPart(sources["undecided"].mass, 0.0, certificate.falsified, 1 - certificate.certified)
    assert 0 < part.mass <= 1


MARRIAGE = {
    "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
    "attributes": [
        {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
        {"name": "role", "kind": "categorical", "values": ["single", "husband", "wife"]},
        *({"name": name, "kind": "integer", "lower": -400, "upper": 400} for name in "abcd"),
    ],
    "rules": ["role == husband -> sex == m", "role == wife -> sex == f"],
}
LINK = {"when": "sex", "move": "role", "rows": [{"m": "husband", "f": "wife"}]}


@pytest.fixture(scope="module", params=["husbands and wives", "no one for them"])
def married(request) -> tuple[auditing.AuditResult, float]:
    """An audit under rules, and which share of the people in its population flips, of those with a counterpart."""
    linked = request.param == "husbands and wives"
    schema = Schema.parse(MARRIAGE | {"links": [LINK] if linked else []})
    rng = np.random.default_rng(0)
    n = 600
    sex = rng.choice(["f", "m"], n)
    role = np.where(rng.random(n) < 0.5, "single", np.where(sex == "m", "husband", "wife"))
    frame = pd.DataFrame({"sex": sex, "role": role} | {name: rng.integers(-300, 300, n) for name in "abcd"})
    merit = frame[list("abcd")].sum(axis=1) + 90 * (sex == "m") + 120 * (role == "wife")
    frame["hired"] = np.where(merit + rng.normal(0, 50, n) > 0, "yes", "no")
    encoder = make_column_transformer((OneHotEncoder(), ["sex", "role"]), remainder="passthrough")
    inputs = frame.drop(columns="hired")
    model = make_pipeline(encoder, LogisticRegression(max_iter=3000)).fit(inputs, frame["hired"])
    people = encode(schema, frame)
    subject = Subject(model, people)
    result = auditing.audit(subject, auditing.AuditConfig(time_limit=60, samples=1500, searched=0))
    drawn = fit_mixture(people).sample(100_000, np.random.default_rng(9))
    moved, plausible = counterparts_of(schema).of(drawn)
    labels = subject.scorer.predict(moved.reshape(-1, moved.shape[2])).reshape(plausible.shape)
    compared = plausible.all(axis=1)
    assert compared.all() == linked
    return result, float((labels[:, 0] != labels[:, 1])[compared].mean())


def test_between_counterparts_flip_rate_and_certificate_are_one_estimate(married):
    result, truth = married
    (certificate,) = result.certificates
    assert certificate.undecided > 0
    found = result.individual.rate(("sex",), "population")
    rate, compared = found.rate, 1 - certificate.no_counterpart
    estimate = certificate.estimate
    assert (rate.value, rate.low, rate.high, rate.confidence, rate.n) == pytest.approx(
        (estimate.unfair / compared, estimate.low / compared, estimate.high / compared, 0.95, estimate.n)
    )
    assert certificate.falsified / compared <= rate.low <= rate.value <= rate.high
    assert rate.high <= 1 - certificate.certified / compared + 1e-12
    error = 4 * np.sqrt(truth * (1 - truth) / 30_000)
    assert rate.low - error <= truth <= rate.high + error


def test_between_counterparts_every_draw_counts_once(married):
    result, _ = married
    (certificate,) = result.certificates
    sources = {one.source: one for one in certificate.evidence}
    flips = result.individual.rate(("sex",), "population")
    assert (sources["flip rate"].unfair, sources["flip rate"].n) == (flips.flips, flips.n)
    assert sources["flip rate"].mass == pytest.approx(1 - certificate.no_counterpart)
    assert set(sources) == {"undecided", "flip rate"}
    alone = combined_share(Draws(flips.flips, flips.n), Draws())
    assert flips.rate.high - flips.rate.low < alone[2] - alone[1]


@pytest.mark.slow
def test_adult_by_race():
    """The example that said 6.2 % (20,000 draws), 6.5 % (2,048 draws) and at least 6.0 % (proved) of one rate."""
    adult = datasets.load_dataset("adult")
    model, held_out = auditing.train_example(adult, seed=0)
    people = encode(adult.schema.with_protected(["race"]), held_out)
    result = auditing.audit(Subject(model, people), auditing.AuditConfig(time_limit=60, searched=0, as_published=True))
    (certificate,) = result.certificates
    rate = result.individual.rate(("race",), "population").rate
    assert (rate.value, rate.low, rate.high) == tuple(
        getattr(certificate.estimate, end) for end in ("unfair", "low", "high")
    )
    assert len(set(shown(result))) == 1
    # 200,000 other draws say what the truth is.
    config = individual.FlipConfig(protected=("race",), samples=200_000, seed=5, examples=0, as_published=True)
    truth = individual.measure_flips(Subject(model, people).scorer, people, product_of_marginals(people), config)
    assert rate.low <= truth.rate(("race",), "population").rate.value <= rate.high
