"""Certified training: its penalty by hand, more certified than by plain training, the choice, interrupts."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch")

from evenhand import certification, datasets
from evenhand.errors import OptionError
from evenhand.mitigation import FairClassifier, MitigationConfig
from evenhand.mitigation.candidate import MitigationTask, accuracy
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.split import split_people
from evenhand.mitigation.training import candidates
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.losses.counterfactual import GROWN, Certified
from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingTask
from evenhand.mitigation.training.network import TrainableNetwork
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_fingerprint
from evenhand.population import product_of_marginals
from evenhand.schema import Schema, encode


def loans() -> Schema:
    return Schema.parse(
        {
            "target": {"name": "loan", "favourable": 1, "values": [0, 1]},
            "attributes": [
                {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
                {"name": "income", "kind": "integer", "lower": 0, "upper": 20},
                {"name": "town", "kind": "categorical", "values": ["x", "y", "z"]},
            ],
        }
    )


def penalty(layers: Any, step: int, steps: int) -> tuple[float, float]:
    """The penalty of some layers over six features at a step, and how far boxes have grown by then."""
    schema, rng = loans(), np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, int(a.last) + 1, 50) for a in schema.attributes]).astype(float)
    encoding = FeatureEncoding.fit_to_people(schema, rows)
    network, generator = TrainableNetwork.of(encoding, layers), torch.Generator().manual_seed(0)
    loss = Certified()
    assert loss.prepare(TrainingTask(schema, ("sex",), encoding, 1, generator, steps), network) == []
    individuals = torch.from_numpy(rows)
    features = network.encode(individuals)
    batch = TrainingBatch(individuals, features, torch.zeros(50), torch.zeros(50, dtype=torch.int64), step)
    found = loss.penalty(network, batch, network.logits(features))
    return found.item(), min(1.0, (step + 1) / (GROWN * steps))


def test_a_linear_network_costs_what_is_protected_moves() -> None:
    # Men get 3 more than women, whatever else: nothing else counts, however large the boxes.
    weight = np.array([[1.0], [4.0], [7.0], [-2.0], [0.5], [1.5]])
    for step in (0, 20, 99):
        found, growth = penalty([(weight, np.zeros(1))], step, 100)
        assert found == pytest.approx(3.0 * growth, rel=1e-5)


def test_a_unit_that_may_be_off_costs_its_gap_too() -> None:
    # relu(income, scaled) and nothing that is protected: only what the lines above and below leave open, and that only
    # in boxes where the unit may be on or off.
    hidden = np.zeros((6, 1))
    hidden[2] = 1.0
    wide, growth = penalty([(hidden, np.zeros(1)), (np.ones((1, 1)), np.zeros(1))], 99, 100)
    assert growth == 1
    assert 0.02 < wide < 1
    always_on, _ = penalty([(hidden, np.full(1, 50.0)), (np.ones((1, 1)), np.zeros(1))], 99, 100)
    assert always_on == pytest.approx(0, abs=1e-5)
    narrow, growth = penalty([(hidden, np.zeros(1)), (np.ones((1, 1)), np.zeros(1))], 0, 10_000)
    assert narrow / growth < 0.01


@pytest.fixture(scope="module")
def german() -> Any:
    found = datasets.load_dataset("german")
    return split_people(encode(found.schema, found.frame), seed=0)


def fit(parts: Any, method: str, strength: float, seed: int = 0) -> AdditiveNetwork:
    people = parts.train
    learner = FairClassifier(method, strength=strength, schema=people.schema, hidden=(16, 16), steps=80, seed=seed)
    return learner.fit(people.individuals, candidates.true_labels(people)).network_


@pytest.mark.slow
def test_more_is_certified_and_less_undecided_at_equal_accuracy(german: Any) -> None:
    plain, made = fit(german, "erm", 0.0), fit(german, "certified", 0.2)
    before, after = (
        certification.certify(
            network, protected=("sex",), population=product_of_marginals(german.train), max_boxes=500, samples=1
        )
        for network in (plain, made)
    )
    assert after.certified > before.certified + 0.2
    assert after.undecided < before.undecided - 0.2
    people = german.validation
    assert accuracy(made, people) > accuracy(plain, people) - 0.03
    assert 0.05 < (made.predict(people.individuals) == made.favourable).mean() < 0.95  # it does tell people apart
    harm = FlipMetric(german.train.schema.protected)
    assert harm.size(made, people) < harm.size(plain, people)
    # The same seed gives the same bits, another one others.
    assert network_fingerprint(fit(german, "certified", 0.2)) == network_fingerprint(made)
    assert network_fingerprint(fit(german, "certified", 0.2, seed=1)) != network_fingerprint(made)


def situation(parts: Any, given: Any, progress: Any = None, **settings: Any) -> MitigationTask:
    return MitigationTask(
        given=given,
        learner=None,
        split=parts,
        findings=SimpleNamespace(profiles=(), subgroups=()),
        harms=(FlipMetric(parts.train.schema.protected),),
        config=MitigationConfig(methods=("certified",), **settings),
        progress=progress or (lambda what, share: None),
    )


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = dataclasses.replace(candidates.RECIPES["certified"], steps=40)
    monkeypatch.setitem(candidates.RECIPES, "certified", brief)
    monkeypatch.setattr(candidates, "QUICK_BOXES", 200)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_the_strength_is_chosen_on_the_validation_part(german: Any) -> None:
    given = fit(german, "erm", 0.0)
    candidate = candidates.make_method("certified")(situation(german, given, accuracy_loss=0.03))
    assert [trial.value for trial in candidate.trials] == [0.0, *Certified.sweep]
    (chosen,) = [trial for trial in candidate.trials if trial.chosen]
    least = min(accuracy(given, german.validation), candidate.trials[0].accuracy) - 0.03
    assert chosen.accuracy >= least
    able = [trial for trial in candidate.trials if trial.accuracy >= least]
    assert chosen.harms[0] == min(trial.harms[0] for trial in able)
    assert isinstance(candidate.scorer, AdditiveNetwork)
    assert candidate.scorer.hidden == given.hidden  # the given network, trained on
    fixed = candidates.make_method("certified")(situation(german, given, strength=0.1))
    assert [trial.value for trial in fixed.trials] == [0.1]


@pytest.mark.usefixtures("short")
def test_an_interrupt_keeps_the_best_so_far(german: Any) -> None:
    given = fit(german, "erm", 0.0)

    def stop(what: str, share: float) -> None:
        if f"strength {Certified.sweep[1]:g}" in what:
            raise KeyboardInterrupt

    candidate = candidates.make_method("certified")(situation(german, given, progress=stop))
    assert candidate.interrupted
    assert [trial.value for trial in candidate.trials] == [0.0, Certified.sweep[0]]
    assert sum(trial.chosen for trial in candidate.trials) == 1


def test_needs_somebody_to_compare(german: Any) -> None:
    people = german.train
    with pytest.raises(OptionError, match="no attribute is protected"):
        FairClassifier("certified", schema=people.schema, protected=(), hidden=(4,), steps=2).fit(
            people.individuals, candidates.true_labels(people)
        )
