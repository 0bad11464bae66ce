"""Fairness-aware training as a method: strengths, the network it starts from, and files that say the same."""

import pytest

pytest.importorskip("torch", reason="needs the extra torch")

import dataclasses
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mitigate_cases import SCHEMA, population

from evenhand import datasets, models
from evenhand.errors import LimitError, OptionError
from evenhand.mitigation import FairClassifier, Findings, MitigationConfig, candidate
from evenhand.mitigation.candidate import MitigationTask
from evenhand.mitigation.learners.dense import plain_dense_layers
from evenhand.mitigation.learners.learner import label_values
from evenhand.mitigation.metrics import FlipMetric, SubgroupGapMetric
from evenhand.mitigation.split import TrainingSet, split_people
from evenhand.mitigation.training import candidates
from evenhand.mitigation.training.candidates import make_method
from evenhand.mitigation.training.network import start_from_network, write_network
from evenhand.mitigation.training.recipes import RECIPES
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import (
    AffineLayer,
    LineTerm,
    StepTerm,
    TableTerm,
    network_fingerprint,
    network_from_dense,
)
from evenhand.schema import Schema, encode, read_schema
from support import scaled, small_schema


@pytest.fixture(scope="module")
def parts():
    data = datasets.load_dataset("german")
    return split_people(encode(data.schema.with_protected(["sex"]), data.frame), seed=0)


@pytest.fixture(scope="module")
def given_model(parts):
    """A small network, trained for accuracy alone."""
    people = parts.train
    model = FairClassifier(schema=people.schema, hidden=(16,), steps=60)
    return model.fit(people.individuals, label_values(TrainingSet.plain(people))).network_


@pytest.fixture(autouse=True)
def _small_networks(monkeypatch):
    monkeypatch.setitem(FairClassifier.__init__.__kwdefaults__, "hidden", (32, 16))


def situation(parts, model, **settings):
    harms = settings.pop("harms", (SubgroupGapMetric({"sex": ("female",)}), FlipMetric(("sex",))))
    deadline = settings.pop("deadline", None)
    progress = settings.pop("progress", lambda what, share: None)
    return MitigationTask(
        model, None, parts, Findings((), (), ()), harms, MitigationConfig(**settings), progress, deadline
    )


def sweep_diffdp(monkeypatch, *strengths):
    recipe = RECIPES["diffdp"]
    penalty = dataclasses.replace(recipe.loss(), sweep=strengths)
    monkeypatch.setitem(RECIPES, "diffdp", dataclasses.replace(recipe, loss=lambda: penalty))


def test_the_strength_is_chosen_on_the_validation_people(parts, given_model, monkeypatch):
    sweep_diffdp(monkeypatch, 1.0, 3.0)
    said = []
    case = situation(parts, given_model, accuracy_loss=0.05, progress=lambda what, share: said.append((what, share)))
    candidate = make_method("diffdp")(case)
    assert [trial.value for trial in candidate.trials][:3] == [0.0, 1.0, 3.0]
    chosen = [trial for trial in candidate.trials if trial.chosen]
    assert len(chosen) == 1
    people = parts.validation
    right = (candidate.scorer.predict(people.individuals) == people.favourable).mean()
    assert chosen[0].accuracy == pytest.approx(right)
    assert chosen[0].harms == tuple(harm.size(candidate.scorer, people) for harm in case.harms)
    # It is not told the sex, so nothing flips; of those that cost little, none leaves a smaller gap.
    assert chosen[0].harms[1] == 0
    before = (given_model.predict(people.individuals) == people.favourable).mean()
    least = (before if candidate.trials[0].accuracy >= before - 0.05 else candidate.trials[0].accuracy) - 0.05
    rivals = [trial.harms[0] for trial in candidate.trials if trial.accuracy >= least]
    assert chosen[0].harms[0] == min(rivals)
    assert [share for _, share in said] == sorted(share for _, share in said)
    assert 0 < said[0][1] < said[-1][1] <= 1
    assert "does not get sex" in " ".join(candidate.notes)


class Known:
    """A training whose accuracy and gap on the validation people are known functions of the strength."""

    def __init__(self, monkeypatch, case, sweep, bearable, gap=lambda strength: 0.4 / (1 + strength)):
        self.asked = []
        sweep_diffdp(monkeypatch, *sweep)
        monkeypatch.setattr(candidate, "measure_all", lambda model, people, harms: (gap(float(model.name or 0)),))
        right = {True: 0.9, False: 0.5}
        monkeypatch.setattr(candidate, "accuracy", lambda model, people: right[float(model.name or 0) <= bearable])
        network = AdditiveNetwork(
            case.given.schema, case.given.parts, case.given.bias, case.given.layers, case.given.classes, 1
        )

        def fit(model, *people, **options):
            self.asked.append(model.strength)
            model.network_ = dataclasses.replace(network, name=str(model.strength))
            model.interrupted_ = False
            return model

        monkeypatch.setattr(FairClassifier, "fit", fit)
        self.case = dataclasses.replace(case, given=dataclasses.replace(network, name="0"))
        self.candidate = make_method("diffdp")(self.case)

    @property
    def chosen(self):
        (trial,) = [trial for trial in self.candidate.trials if trial.chosen]
        return trial.value


def test_strengths_between_the_last_bearable_and_the_next_are_tried(parts, given_model, monkeypatch):
    # Between 1 and 4: 2 (bearable), between 2 and 4: 2.83 (not), between 2 and 2.83: 2.38 (bearable).
    known = Known(monkeypatch, situation(parts, given_model), (1.0, 4.0, 16.0), 2.5)
    assert known.asked == [0, 1, 4, 16, 2, 2.83, 2.38]
    assert known.chosen == 2.38
    assert known.candidate.words.endswith("strength 2.38")


def test_where_even_the_weakest_costs_too_much_weaker_ones_are_tried(parts, given_model, monkeypatch):
    # A tenth of it is the other end: 1 / sqrt(10), again and again.
    known = Known(monkeypatch, situation(parts, given_model), (1.0, 4.0), 0.05)
    assert known.asked == [0, 1, 4, 0.316, 0.0999, 0.0316]
    assert known.chosen == 0.0316


def test_nothing_between_is_tried_where_there_is_nothing_to_gain(parts, given_model, monkeypatch):
    case = situation(parts, given_model)
    assert Known(monkeypatch, case, (1.0, 4.0), 9).asked == [0, 1, 4], "the strongest is bearable"
    known = Known(monkeypatch, case, (1.0, 4.0), 2, gap=lambda strength: 0.0 if strength else 0.4)
    assert known.asked == [0, 1, 4], "no harm is left"
    assert known.chosen == 1


@given(st.lists(st.floats(0.01, 50), min_size=2, max_size=5, unique=True), st.floats(0.001, 60))
@settings(max_examples=scaled(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_refining_never_chooses_worse_than_the_sweep_and_stays_bearable(parts, given_model, sweep, bearable):
    sweep = tuple(sorted(round(strength, 2) for strength in sweep))
    with pytest.MonkeyPatch.context() as patched:
        known = Known(patched, situation(parts, given_model), sweep, bearable)
    swept = max((strength for strength in (0.0, *sweep) if strength <= bearable), default=0.0)
    assert swept <= known.chosen <= bearable
    assert len(known.asked) <= 1 + len(sweep) + candidates.MAX_REFINEMENTS


def test_a_given_network_is_trained_on_until_the_gap_is_narrower(parts, given_model):
    harm = SubgroupGapMetric({"sex": ("female",)})
    case = situation(parts, given_model, harms=(harm,), strength=1.0)
    mended = make_method("gap")(case).scorer
    assert [part.shape for part in (mended.bias, mended.layers[0].weights)] == [(16,), (16, 1)], "as large as the given"
    inside, rows = harm.inside(parts.train), parts.train.individuals
    scores = [model.scores(rows)[:, model.favourable] for model in (given_model, mended)]
    before, after = (abs(score[inside].mean() - score[~inside].mean()) for score in scores)
    assert after < before / 2
    # Trained on without a penalty, little changes: it is the given network, not a fresh one.
    same = make_method("gap")(situation(parts, given_model, harms=(harm,), strength=0.0)).scorer
    rows = parts.validation.individuals
    assert (same.predict(rows) == given_model.predict(rows)).mean() > 0.9


def test_a_strength_that_is_named_is_the_only_one(parts, given_model):
    candidate = make_method("diffdp")(situation(parts, given_model, strength=0.7))
    assert [(trial.value, trial.chosen) for trial in candidate.trials] == [(0.7, True)]
    assert candidate.words.endswith("strength 0.7")


def test_the_penalty_is_aimed_at_the_subgroup_found(parts, given_model, monkeypatch):
    asked = {}
    fit = FairClassifier.fit

    def spy(self, people, labels, **options):
        asked["group"] = options["sensitive_features"]
        return fit(self.set_params(hidden=(4,), steps=2), people, labels, **options)

    monkeypatch.setattr(FairClassifier, "fit", spy)
    rules = {"housing": ("A152",)}
    make_method("hsic")(situation(parts, given_model, strength=1.0, harms=(SubgroupGapMetric(rules),)))
    assert np.array_equal(asked["group"], SubgroupGapMetric(rules).inside(parts.train))
    make_method("hsic")(situation(parts, given_model, strength=1.0, harms=(FlipMetric(("sex",)),)))
    assert asked["group"] is None


def test_the_best_so_far_is_kept_when_somebody_stops_it(parts, given_model, monkeypatch):
    sweep_diffdp(monkeypatch, 0.5, 1.0, 2.0)
    calls = []

    def progress(what, share):
        calls.append(share)
        if share > 0.3:
            raise KeyboardInterrupt

    candidate = make_method("diffdp")(situation(parts, given_model, progress=progress))
    assert candidate.interrupted
    assert [trial.value for trial in candidate.trials] == [0.0, 0.5]
    assert sum(trial.chosen for trial in candidate.trials) == 1


def test_time_that_is_up_before_anything_is_learnt_is_said(parts, given_model):
    with pytest.raises(LimitError, match="before diffdp completed a step"):
        make_method("diffdp")(situation(parts, given_model, deadline=time.perf_counter() - 1))


def test_a_written_network_is_read_with_the_schema_beside_it(parts, tmp_path):
    model = FairClassifier(schema=parts.train.schema, hidden=(4,), steps=20)
    network = model.fit(parts.train.individuals, label_values(TrainingSet.plain(parts.train))).network_
    files = write_network(network, tmp_path / "fair.npz")
    assert [file.name for file in files] == ["fair.npz", "fair.schema.yaml"]
    schema = read_schema(files[1])
    again = models.load_model(files[0], schema)
    rows = parts.test.individuals
    assert np.allclose(again.scores(rows), network.scores(rows), atol=1e-12)
    assert np.array_equal(again.predict(rows), network.predict(rows))
    assert schema.protected == ("sex",)


numbers = st.floats(-3, 3, width=32)


@given(st.data())
@settings(max_examples=scaled(40), deadline=None)
def test_any_network_of_tables_and_lines_is_written_without_loss(data):
    parts = []
    for attribute in SCHEMA.attributes:
        if attribute.is_discrete:
            shape = (attribute.size, 2)
            rows = data.draw(st.lists(numbers, min_size=2 * attribute.size, max_size=2 * attribute.size))
            parts.append(TableTerm(np.array(rows).reshape(shape), 0.0))
        else:
            line = np.array(data.draw(st.lists(numbers, min_size=4, max_size=4)))
            parts.append(LineTerm(line[:2], line[2:]))
    last = AffineLayer(np.array([[1.0], [-2.0]]), np.array([0.25]))
    network = AdditiveNetwork(SCHEMA, tuple(parts), np.array([0.5, -0.5]), (last,), ("no", "yes"), 1)
    schema, layers = plain_dense_layers(network)
    rows = population(SCHEMA, 50, 3).individuals
    assert np.allclose(network_from_dense(schema, layers).logits(rows), network.logits(rows), atol=1e-9)


def test_bins_and_other_endings_are_refused(tmp_path, given_model):
    with pytest.raises(OptionError, match=r"got '\.h5'"):
        write_network(given_model, tmp_path / "fair.h5")
    with pytest.raises(OptionError, match="no such folder"):
        write_network(given_model, tmp_path / "absent" / "fair.npz")
    parts = [*given_model.parts]
    at = given_model.schema.position("duration")
    parts[at] = StepTerm(np.array([12.0]), np.zeros((2, len(given_model.bias))))
    binned = AdditiveNetwork(
        given_model.schema, tuple(parts), given_model.bias, given_model.layers, given_model.classes, 1
    )
    with pytest.raises(OptionError, match="'duration' enters the network through bins"):
        write_network(binned, tmp_path / "fair.npz")


def mixed_schema(favourable: int = 1) -> Schema:
    """A number, a category as a code, one by columns, an ordinal attribute; what is protected among them."""
    return small_schema(
        [0, 1],
        favourable=favourable,
        age={"kind": "integer", "lower": 18, "upper": 90, "encoding": {"offset": 40, "scale": 10}},
        job={"kind": "categorical", "values": ["a", "b", "c", "d"], "encoding": "code"},
        town={"kind": "categorical", "values": ["x", "y", "z"], "encoding": "one-hot"},
        grade={"kind": "ordinal", "values": [1, 2, 3], "encoding": [0.0, 1.0, 4.0]},
        sex={"kind": "categorical", "values": ["f", "m"], "encoding": "code", "protected": True},
    )


def crowd(schema: Schema, n: int = 300, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(int(a.first), int(a.last) + 1, n) for a in schema.attributes]).astype(float)


def some_network(schema: Schema, outputs: int = 1, seed: int = 0) -> AdditiveNetwork:
    rng = np.random.default_rng(seed)
    sizes = (schema.width, 6, 5, outputs)
    layers = [(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in itertools.pairwise(sizes)]
    values = schema.target.values or ()
    return network_from_dense(schema, layers, classes=values, favourable=values.index(schema.target.favourable))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("favourable", [0, 1])
def test_begins_as_the_given_network(outputs: int, favourable: int) -> None:
    schema = mixed_schema(favourable)
    given, people = some_network(schema, outputs), crowd(schema)
    encoding, layers = start_from_network(given, schema, people)
    units = encoding.features(people).astype(np.float64) @ layers[0][0] + layers[0][1]
    for weight, bias in layers[1:]:
        units = np.maximum(units, 0) @ weight + bias
    assert units.shape == (len(people), 1)
    expected = given.scores(people)[:, given.favourable]
    assert np.allclose(1 / (1 + np.exp(-units[:, 0])), expected, atol=1e-5)
    # And as a network over individuals.
    made = encoding.additive(layers, (1 - favourable, favourable), 1, "made")
    assert np.allclose(made.scores(people)[:, 1], expected, atol=1e-9)


def test_trained_on_and_written_like_the_given_one(tmp_path: Path) -> None:
    schema = mixed_schema()
    given, people = some_network(schema), crowd(schema)
    labels = given.predict(people)
    learner = FairClassifier("logit-pairing", strength=0.1, schema=schema, start=given, steps=30, learning_rate=0.003)
    made = learner.fit(people, labels).network_
    assert made.hidden == given.hidden
    assert (made.predict(people) == labels).mean() > 0.8
    assert not np.allclose(made.logits(people), given.logits(people))
    # The category that was one number still is, so that the file needs no other schema than the given one's.
    written = write_network(made, tmp_path / "new.npz")
    assert written == (tmp_path / "new.npz",)
    assert np.allclose(models.load_model(written[0], schema).scores(people), made.scores(people))
    again = FairClassifier("logit-pairing", strength=0.1, schema=schema, start=given, steps=30, learning_rate=0.003)
    assert network_fingerprint(again.fit(people, labels).network_) == network_fingerprint(made)


def test_refuses_what_it_cannot_train_on() -> None:
    schema = mixed_schema()
    people = crowd(schema)
    other = small_schema([0, 1], x=(0.0, 1.0))
    line = AdditiveNetwork(other, (LineTerm(np.ones(1), np.zeros(1)),), np.zeros(1), (), (0, 1), 1)
    with pytest.raises(OptionError, match="different attributes"):
        start_from_network(line, schema, people)
    steps, last = StepTerm(np.array([0.5]), np.ones((2, 1))), AffineLayer(np.ones((1, 1)), np.zeros(1))
    bins = AdditiveNetwork(other, (steps,), np.zeros(1), (last,), (0, 1), 1)
    with pytest.raises(OptionError, match="enter linearly"):
        start_from_network(bins, other, np.array([[0.1], [0.9]]))
    table = some_network(schema)
    with pytest.raises(OptionError, match="cannot be combined"):
        FairClassifier(schema=schema, start=table, sees_protected=False).fit(people, table.predict(people))
