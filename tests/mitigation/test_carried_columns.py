"""Mitigation of a pipeline that reads a text and a day of the data, with people who prefer not to say their gender."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand.errors import DataError
from evenhand.mitigation import find_alternatives
from evenhand.mitigation.split import put_in_one_table
from evenhand.models import Subject, load_model
from evenhand.schema import encode, infer_schema

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
    done = find_alternatives(
        Subject(model, encode(SCHEMA, FRAME)),
        against="gap",
        methods=("reweigh", "tilt"),
        decide_without=("gender",),
        accuracy_loss=0.3,
        test=test,
    )
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
