"""Models that do without a column, and columns that a table carries."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand import certification, models
from evenhand.errors import DataError
from evenhand.mitigation import MitigationConfig, find_alternatives
from evenhand.mitigation.candidate import MitigationTask
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.split import put_in_one_table, split_people
from evenhand.mitigation.study import find_learner
from evenhand.mitigation.training.blind import PROXIES, average_protected, blind, fix_people, most_frequent_row
from evenhand.models import AdditiveNetwork, Subject, load_model
from evenhand.models.additive.network import AffineLayer, LineTerm, StepTerm, TableTerm
from evenhand.schema import Schema, encode, infer_schema
from support import small_schema


def hiring(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """People whose job offer depends on sex, age, skill, and a street that goes along with sex."""
    rng = np.random.default_rng(seed)
    sex = np.where(rng.random(n) < 0.4, "f", "m")
    age = rng.integers(20, 40, size=n)
    street = np.where((sex == "f") ^ (rng.random(n) < 0.2), "north", "south")
    skill = rng.integers(0, 10, size=n)
    favour = skill - 4 + 2.5 * (sex == "m") + 0.1 * (age < 30) + rng.normal(size=n) > 0
    offer = np.where(favour, "yes", "no")
    return pd.DataFrame({"sex": sex, "age": age, "street": street, "skill": skill, "offer": offer})


def hiring_schema() -> Schema:
    described = small_schema(target="offer", sex="f m *", age=(20, 39), street="north south", skill=(0, 9))
    return described.with_protected(["sex", "age"]).with_encodings({"sex": "code", "street": "code"})


def random_network(seed: int = 0) -> AdditiveNetwork:
    rng = np.random.default_rng(seed)
    return AdditiveNetwork(
        hiring_schema(),
        (
            TableTerm(rng.normal(size=(2, 5)), 0.0),
            LineTerm(0.2 * rng.normal(size=5), -6 * rng.normal(size=5)),
            TableTerm(rng.normal(size=(2, 5)), 0.0),
            LineTerm(rng.normal(size=5), np.zeros(5)),
        ),
        rng.normal(size=5),
        (AffineLayer(rng.normal(size=(5, 1)), np.zeros(1)),),
        ("no", "yes"),
        1,
    )


def situation(given: Any, learner: Any = None, **settings: Any) -> MitigationTask:
    people = encode(hiring_schema(), hiring())
    return MitigationTask(
        given=given,
        learner=learner,
        split=split_people(people, seed=0),
        findings=SimpleNamespace(profiles=(), subgroups=()),
        harms=(FlipMetric(("sex",)),),
        config=MitigationConfig(methods=("blind",), **settings),
        progress=lambda what, share: None,
    )


def test_a_network_is_averaged_exactly() -> None:
    given = random_network()
    asked = situation(given)
    candidate = blind(asked)
    made, people = candidate.scorer, asked.split.train
    assert isinstance(made, AdditiveNetwork)
    # The first units are, on average over the people learnt from, what they were: only their spread is gone.
    assert np.allclose(made.first(people.individuals).mean(0), given.first(people.individuals).mean(0))
    assert np.array_equal(made.parts[2].rows, given.parts[2].rows)
    everybody = models.load_model(made, made.schema)
    assert FlipMetric(("sex", "age")).size(everybody, asked.split.validation) == 0
    assert candidate.trials[0].harms == (0.0,)
    assert candidate.notes == (PROXIES,)
    certificate = certification.certify(made, samples=1)
    assert (certificate.certified, certificate.falsified) == (1, 0)


def test_by_hand() -> None:
    schema = hiring_schema()
    columns = {"sex": ["f", "m", "m"], "age": [20, 30, 31], "street": ["north"] * 3, "skill": [1, 2, 3]}
    people = encode(schema, pd.DataFrame({**columns, "offer": ["no", "yes", "yes"]}))
    given = AdditiveNetwork(
        schema,
        (
            TableTerm(np.array([[0.0], [3.0]]), 0.0),
            LineTerm(np.array([1.0]), np.array([-20.0])),
            TableTerm(np.zeros((2, 1)), 0.0),
            LineTerm(np.array([1.0]), np.array([0.0])),
        ),
        np.array([0.0]),
        (),
        ("no", "yes"),
        1,
    )
    made = average_protected(given, people, [0, 1])
    # Sex adds (0 + 3 + 3)/3 = 2 for everybody, age (0 + 10 + 11)/3 = 7.
    assert made.logits(people.individuals)[:, 0].tolist() == pytest.approx([10.0, 11.0, 12.0])
    steps = StepTerm(np.array([25.0, 30.5]), np.array([[1.0], [2.0], [6.0]]))
    stepped = average_protected(
        AdditiveNetwork(schema, (given.parts[0], steps, *given.parts[2:]), given.bias, (), ("no", "yes"), 1),
        people,
        [1],
    )
    assert stepped.parts[1].at(np.array([20.0, 39.0])).tolist() == [[3.0], [3.0]]


def test_the_file_is_the_network(tmp_path: Path) -> None:
    asked = situation(random_network())
    candidate = blind(asked)
    written = candidate.save(tmp_path / "new.npz")
    assert written[0] == tmp_path / "new.npz"
    again = models.load_model(written[0], hiring_schema())
    rows = asked.split.test.individuals
    assert np.allclose(again.scores(rows), candidate.scorer.scores(rows))
    assert FlipMetric(("sex", "age")).size(again, asked.split.test) == 0


def fitted() -> tuple[Any, Any]:
    """A pipeline on the data's own words, and how it learns."""
    frame, schema = hiring(), hiring_schema()
    columns = make_column_transformer((OneHotEncoder(), ["sex", "street"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression(max_iter=1000))
    model.fit(frame[["sex", "age", "street", "skill"]], frame["offer"])
    scorer = models.load_model(model, schema, like=frame)
    return scorer, find_learner(scorer, like=frame)


def test_any_other_model_is_trained_anew_and_asked_alike(tmp_path: Path) -> None:
    given, learner = fitted()
    asked = situation(given, learner)
    harm = FlipMetric(("sex", "age"))
    assert harm.size(given, asked.split.validation) > 0.2
    candidate = blind(asked)
    assert harm.size(candidate.scorer, asked.split.validation) == 0
    rows = asked.split.validation.individuals
    assert not np.array_equal(candidate.scorer.predict(rows), np.zeros(len(rows)))
    # Blind is not fair: the street still tells men from women, and the words say so.
    predicted = candidate.scorer.predict(rows) == candidate.scorer.favourable
    assert predicted[rows[:, 0] == 1].mean() - predicted[rows[:, 0] == 0].mean() > 0.05
    assert PROXIES in candidate.notes
    assert any("sex = m" in note for note in candidate.notes)
    assert candidate.save(tmp_path / "new.joblib")[0].exists()


def test_everybody_is_told_the_same_in_the_frame_too() -> None:
    people = encode(hiring_schema(), hiring(50))
    columns = (0, 1)
    entries = most_frequent_row(people.individuals[:, columns])
    told = fix_people(people, columns, entries)
    assert (told.individuals[:, :2] == entries).all()
    assert set(told.frame["sex"]) == {["f", "m"][int(entries[0])]}
    assert set(told.frame["age"]) == {int(entries[1])}
    assert told.frame["age"].dtype == people.frame["age"].dtype
    assert told.frame["skill"].equals(people.frame["skill"])
    assert np.array_equal(encode(people.schema, told.frame).individuals, told.individuals)


REFUSED = "Prefer not to say"
QUICK = {"certify_effort": 0, "rounds": 1, "seed": 0}


def applicants(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": [f"{seed}-{i}" for i in range(n)],
            "text": [f"applicant {i} writes {rng.choice(['well', 'badly'])}" for i in range(n)],
            "gender": rng.choice(["f", "m", REFUSED], n, p=[0.45, 0.45, 0.1]),
            "points": rng.integers(0, 10, n),
        }
    )
    score = frame["points"] + 3 * frame["text"].str.contains("well") - 2 * (frame["gender"] == "f")
    return frame.assign(hired=(score + rng.normal(0, 1, n) > 5).astype(int))


def fit(frame, labels):
    parts = [("gender", OneHotEncoder(), ["gender"]), ("points", "passthrough", ["points"])]
    parts.append(("text", CountVectorizer(vocabulary=["well", "badly"]), "text"))
    return make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=2000)).fit(frame, labels)


FRAME, ASIDE = applicants(600, 1), applicants(200, 2)
ABOUT = {"target": "hired", "protected": ["gender"], "accept_proposals": True}
SCHEMA = infer_schema(FRAME, favourable=1, **ABOUT)


@pytest.fixture(scope="module")
def model():
    return fit(FRAME.drop(columns="hired"), FRAME["hired"])


@pytest.fixture(scope="module")
def found(model):
    return evenhand.search(model, FRAME, **ABOUT, budget=3000, seed=1)


def test_the_new_model_is_trained_and_compared_with_what_stands_in_the_rows(model, found):
    test = encode(SCHEMA, ASIDE)
    done = evenhand.mitigate(
        model, FRAME, schema=SCHEMA, findings=[found], methods=["retrain"], test=test, test_name="aside", **QUICK
    )
    known = ASIDE[ASIDE["gender"] != REFUSED]
    retrained, refitted = done.candidates
    models = (model, retrained.scorer.model, refitted.scorer.model)
    for made, shown in zip(models, (None, *done.result.candidates), strict=True):
        right = (made.predict(known) == known["hired"]).mean()
        changed = (made.predict(known.assign(gender="f")) != made.predict(known.assign(gender="m"))).mean()
        for one in [shown] if shown is not None else done.result.candidates:
            side = "before" if shown is None else "after"
            assert getattr(one.line("accuracy"), side).value == pytest.approx(right)
            flips = next(line for line in one.lines if line.name == "flip_rate" and line.part == "asked")
            assert getattr(flips, side).value == pytest.approx(changed)
    said = " ".join(done.result.notes)
    left_out = sum((frame["gender"] == REFUSED).sum() for frame in (FRAME, ASIDE))
    assert f"{left_out} people whose gender is unknown are left out" in said
    assert "Passthrough columns (id, text) are passed to models that take data frames" in said


def test_a_function_of_ones_own_gets_the_columns_of_the_training_people(model, found):
    seen = []

    def own(frame, labels):
        seen.append(frame)
        return fit(frame, labels)

    done = evenhand.mitigate(model, FRAME, schema=SCHEMA, findings=[found], methods=["retrain"], fit=own, **QUICK)
    assert all(list(frame.columns) == ["gender", "points", "id", "text"] for frame in seen)
    rows = FRAME.set_index("id")["text"]
    for frame in seen:
        assert (frame["text"].to_numpy() == rows[frame["id"]].to_numpy()).all()
    real = done.result.people.train
    known = FRAME[FRAME["gender"] != REFUSED]
    assert max(map(len, seen)) > real
    for frame in seen:
        added = frame.iloc[real:]
        assert set(frame["id"]) == set(frame["id"].iloc[:real]) <= set(known["id"])
        assert len(added) < 20 or added["id"].nunique() > 10


def test_tables_that_do_not_fit_are_refused(model):
    polars = pytest.importorskip("polars", reason="needs the extra polars")
    with pytest.raises(DataError, match="the test set cannot be appended to the data"):
        put_in_one_table(Subject(model, encode(SCHEMA, FRAME)), encode(SCHEMA, polars.from_pandas(ASIDE)))


def test_alternatives_read_what_stands_in_the_rows_and_keep_none_of_them(model, tmp_path):
    test = encode(SCHEMA, ASIDE)
    options = {"against": "gap", "methods": ("reweigh", "tilt"), "decide_without": ("gender",)}
    done = find_alternatives(Subject(model, encode(SCHEMA, FRAME)), accuracy_loss=0.3, test=test, **options)
    result, known = done.result, ASIDE[ASIDE["gender"] != REFUSED]
    assert result.test == len(known)
    assert result.candidates[0].test.accuracy == pytest.approx((model.predict(known) == known["hired"]).mean())
    tilted = next(one for one in result.candidates if one.method == "reweigh x tilt")
    (path,) = done.savers[tilted.number](tmp_path / "new.joblib")
    assert b"writes" not in path.read_bytes()
    read = joblib.load(path)
    assert list(read.feature_names_in_) == ["points", "id", "text"]
    assert (read.predict(known) == known["hired"]).mean() == pytest.approx(tilted.test.accuracy)
    assert (read.predict(known.drop(columns="gender")) == read.predict(known)).all()
    # Shuffled, everybody is given the answer by their own text.
    shuffled = known.sample(frac=1, random_state=0)
    assert (read.predict(shuffled) == pd.Series(read.predict(known), known.index)[shuffled.index]).all()
    again = load_model(path, SCHEMA, like=FRAME, trust=True)
    assert (again.answer_frame(known)[:, 0] == read.predict(known)).all()
    assert "also needed for predictions of a new model" in " ".join(result.notes)
