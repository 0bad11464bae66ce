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
from evenhand.core import Metric
from evenhand.models import Subject
from evenhand.population import product_of_marginals
from evenhand.schema import ColumnRoles, encode
from evenhand.stats import Draws, OpenPart, combined_share


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
    return auditing.audit(Subject(model, people), auditing.AuditConfig(time_limit=8, samples=1500, searched=0))


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
    assert (rate.value, rate.low, rate.high, rate.confidence, rate.n) == (
        estimate.unfair, estimate.low, estimate.high, 0.95, estimate.n,
    )  # fmt: skip
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


def test_the_screen_says_one_number_and_the_table_its_parts(result):
    first, second = shown(result)
    assert first == second
    text = result.to_markdown()
    assert "What the estimate of different decisions rests on" in text
    assert "drawn from all of the simulated population, for the counterfactual flip rate | " in text


@pytest.mark.full
def test_adult_by_race():
    """The example that said 6.2 % (20,000 draws), 6.5 % (2,048 draws) and at least 6.0 % (proved) of one rate."""
    adult = datasets.load_dataset("adult")
    model, held_out = auditing.train_example(adult, seed=0)
    people = encode(adult.schema.with_protected(["race"]), held_out)
    result = auditing.audit(Subject(model, people), auditing.AuditConfig(time_limit=10, searched=0, as_published=True))
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
