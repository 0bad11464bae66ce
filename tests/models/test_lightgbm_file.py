"""LightGBM's own text files: the same answers as LightGBM, and clear refusals of everything else."""

import contextlib
import re

import borrowers
import numpy as np
import pandas as pd
import pytest
from borrowers import BINARY, FRAME, INPUTS, PEOPLE, SCHEMA, SCHEMA3, THREE, TOWN, N, assert_same, schema, worded
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models.readers.boosters import read_booster
from evenhand.models.readers.lightgbm_file import parse_lightgbm, read_lightgbm
from evenhand.schema import Schema, encode
from support import scaled

lightgbm = pytest.importorskip("lightgbm", reason="needs lightgbm")

EXACT = 1e-12
"""Both compute in float64; only the order of additions may differ."""


def train(labels=BINARY, inputs=INPUTS, *, rounds=12, categories=(TOWN, 3), names="auto", **parameters):
    data = lightgbm.Dataset(
        inputs, labels, categorical_feature=list(categories), feature_name=names, params={"verbose": -1}
    )
    defaults = {"objective": "binary", "num_leaves": 12, "verbose": -1, "num_threads": 1, "seed": 1}
    defaults |= {"deterministic": True, "min_data_per_group": 10, "cat_smooth": 1.0, "max_cat_to_onehot": 3}
    return lightgbm.train(defaults | parameters, data, rounds)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_cat_to_onehot": 20},
        {"categories": ()},
        {"sigmoid": 2.5},
        {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
        {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.7},
        {"data_sample_strategy": "goss"},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"objective": "cross_entropy"},
        {"boost_from_average": False, "rounds": 1},
    ],
    ids=str,
)
def test_two_labels(tmp_path, parameters):
    booster = train(**parameters)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    model = read_lightgbm(path, SCHEMA)
    assert (model.classes, model.favourable, model.name) == (("no", "yes"), 1, "model.txt")
    assert_same(model, PEOPLE, booster.predict(INPUTS), atol=EXACT)


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "multiclass"},
        {"objective": "multiclassova", "sigmoid": 1.5},
        {"objective": "multiclass", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    ],
    ids=str,
)
def test_three_labels(parameters):
    booster = train(THREE, num_class=3, rounds=6, **parameters)
    own = booster.predict(INPUTS)
    assert_same(read_booster(booster, SCHEMA3), PEOPLE, own / own.sum(axis=1, keepdims=True), atol=EXACT)


def test_zero_counts_as_missing_where_the_model_says_so():
    """Many borrowers have a balance of exactly 0; beside it, numbers that LightGBM takes for 0 and that it does not."""
    booster = train(zero_as_missing=True, categories=())
    model = read_booster(booster, SCHEMA)
    assert model.nodes.zero_missing.any()
    people = np.repeat(PEOPLE[:200], 6, axis=0)
    people[:, 4] = np.tile([0.0, -0.0, 1e-36, -1e-35, 2e-35, np.nan], 200)
    assert_same(model, people, booster.predict(SCHEMA.inputs(people)), atol=EXACT)
    plain = read_booster(train(categories=()), SCHEMA)
    assert not plain.nodes.zero_missing.any()


def test_a_value_that_was_never_missing_in_training():
    booster = train(rounds=40)
    model = read_booster(booster, SCHEMA)
    for column in (1, 3):
        assert (model.nodes.feature == column).any()
        people = PEOPLE[:500].copy()
        people[:, column] = np.nan
        assert_same(model, people, booster.predict(SCHEMA.inputs(people)), atol=EXACT)


def test_inputs_at_the_threshold_and_beside_it():
    booster = train(categories=(), rounds=4)
    model = read_booster(booster, SCHEMA)
    cuts = model.nodes.threshold[model.nodes.feature == 0]
    assert len(cuts) > 5
    people = borrowers.people_beside(cuts)
    np.testing.assert_allclose(model.raw(people)[:, 0], booster.predict(SCHEMA.inputs(people), raw_score=True))


def classifier(**parameters):
    return lightgbm.LGBMClassifier(
        n_estimators=10, num_leaves=15, min_data_per_group=10, cat_smooth=1, verbose=-1, n_jobs=1, **parameters
    )


def test_words_find_their_codes_by_name_and_columns_by_theirs():
    frame = worded()[["sex", "balance", "home town", "age", "income"]]
    fitted = classifier(max_cat_to_onehot=2).fit(frame, BINARY)
    model = read_booster(fitted, SCHEMA)
    assert len(model.nodes.words) > 0
    assert_same(model, PEOPLE, fitted.predict_proba(frame), atol=EXACT)
    with pytest.raises(ModelError, match="home town"):
        read_booster(fitted, schema(towns=["a", "b", "c", "d", "e", "f", "g"]))
    # A town the model never met goes where LightGBM sends it.
    wider = schema(towns=["Ayr", *SCHEMA["home town"].values])
    people = PEOPLE.copy()
    people[:, TOWN] = 0
    unseen = frame.assign(**{"home town": pd.Categorical(["Ayr"] * N)})
    assert_same(read_booster(fitted, wider), people, fitted.predict_proba(unseen), atol=EXACT)


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\u3000", "\x1c"])
def test_names_of_features_may_contain_separators(separator):
    trained = train(categories=(), names=[f"a{separator}{i}" for i in range(INPUTS.shape[1])], rounds=2)
    renamed = train(categories=(), rounds=2)
    attributes = [{**one.model_dump(), "name": f"a{separator}{i}"} for i, one in enumerate(SCHEMA.attributes)]
    named = Schema.parse(SCHEMA.model_dump() | {"attributes": attributes})
    model = parse_lightgbm(trained.model_to_string(), named, location="model.txt")
    assert_same(model, PEOPLE, renamed.predict(INPUTS), atol=EXACT)


def test_ordered_words_are_numbers_to_the_model():
    """Ordered categories in the order of the training data; the schema lists them otherwise."""
    levels = ["low", "fair", "good", "best"]
    rng = np.random.default_rng(3)
    level = rng.integers(0, 4, N)
    frame = worded()[["home town", "income"]].assign(level=pd.Categorical.from_codes(level, levels, ordered=True))
    labels = (np.array([3, 0, 1, 2])[level] + rng.normal(0, 0.5, N) > 1.5).astype(int)
    frame.loc[:100, "level"] = np.nan
    level = {"name": "level", "kind": "categorical", "values": ["best", "fair", "low", "good"], "missing": "keep"}
    others = [SCHEMA[name].model_dump() for name in ("home town", "income")]
    described = Schema.parse(SCHEMA.model_dump() | {"attributes": [level, *others]})
    people = encode(described, frame).individuals
    for more in ({}, {"zero_as_missing": True}, {"use_missing": False}):
        fitted = classifier(**more).fit(frame, labels)
        model = read_booster(fitted, described)
        assert (model.nodes.feature == 0).any()
        assert_same(model, people, fitted.predict_proba(frame), atol=EXACT)


def test_numbers_as_categories_of_a_frame():
    frame = FRAME[["income"]].assign(age=pd.Categorical(FRAME["age"].astype(int)))
    fitted = classifier(max_cat_to_onehot=2).fit(frame, BINARY)
    model = read_booster(fitted, SCHEMA)
    assert len(model.nodes.words) > 0
    assert_same(model, PEOPLE, fitted.predict_proba(frame), atol=EXACT)


def test_labels_that_the_classifier_knows():
    fitted = classifier().fit(INPUTS, np.where(BINARY, "yes", "no"))
    model = read_booster(fitted, schema(target={"name": "granted", "favourable": "yes"}))
    assert (model.classes, model.favourable) == (("no", "yes"), 1)
    turned = schema(target={"name": "refused", "favourable": "no", "values": ["yes", "no"]})
    model = read_booster(fitted, turned)
    assert (model.classes, model.favourable) == (("no", "yes"), 0)
    assert_same(model, PEOPLE, fitted.predict_proba(INPUTS), atol=EXACT)
    grades = classifier().fit(INPUTS, np.array(["A", "B", "C"])[THREE])
    assert read_booster(grades, SCHEMA3).classes == ("A", "B", "C")
    with pytest.raises(ModelError, match="answers"):
        read_booster(fitted, SCHEMA3)
    with pytest.raises(ModelError, match="returns 0, 1, 2"):
        read_booster(train(THREE, objective="multiclass", num_class=3, rounds=2), SCHEMA)


def test_early_stopping_and_trees_of_one_leaf():
    half = N // 2
    known = lightgbm.Dataset(INPUTS[:half], BINARY[:half])
    booster = lightgbm.train(
        {"objective": "binary", "learning_rate": 1.0, "verbose": -1, "num_threads": 1},
        known,
        60,
        valid_sets=[known.create_valid(INPUTS[half:], BINARY[half:])],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    model = read_booster(booster, SCHEMA)
    assert model.nodes.trees == booster.best_iteration < booster.num_trees()
    assert_same(model, PEOPLE, booster.predict(INPUTS), atol=EXACT)
    constant = train(min_data_in_leaf=N)
    model = read_booster(constant, SCHEMA)
    assert len(model.nodes.left) == model.nodes.trees
    np.testing.assert_allclose(model.scores(PEOPLE)[:, 1], constant.predict(INPUTS))


@pytest.fixture(scope="module")
def text():
    return train(rounds=2, num_leaves=5, names=["income", "age", "home_town", "sex", "balance"]).model_to_string()


def read(text):
    return parse_lightgbm(text, SCHEMA, location="model.txt")


def test_what_is_refused(text):
    for parameters, message in (
        ({"linear_tree": True, "categories": ()}, "linear models"),
        ({"objective": "regression"}, "'regression' is not supported for classifiers"),
    ):
        with pytest.raises(ModelError, match=message):
            read_booster(train(rounds=3, **parameters), SCHEMA)
    with pytest.raises(ModelError, match="not fitted"):
        read_booster(lightgbm.LGBMClassifier(), SCHEMA)
    with pytest.raises(ModelError, match="takes 2 inputs, but the schema's 5 attributes have 5"):
        read_booster(train(inputs=INPUTS[:, :2], categories=(), rounds=1), SCHEMA)
    with pytest.raises(ModelError, match="'height', which is not an attribute"):
        read(text.replace("feature_names=income", "feature_names=height"))
    named = worded()[["home town", "sex"]].assign(level=pd.Categorical(FRAME["age"].astype(int), ordered=True))
    fitted = classifier().fit(named.rename(columns={"level": "age"}), BINARY)
    with pytest.raises(ModelError, match="names the categories of 3 features"):
        read_booster(fitted, SCHEMA)


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r"^left_child=\S+", "left_child=0", "not a tree"),
        (r"^right_child=\S+", "right_child=-1", "not a tree"),
        (r"^right_child=\S+", "right_child=77", "child 77"),
        (r"^right_child=\S+", "right_child=-77", "unknown child"),
        (r"^left_child=\S+ ", "left_child=", "must contain 4 numbers, got 3"),
        (r"^split_feature=\S+", "split_feature=5", "unknown feature or comparison"),
        (r"^decision_type=\S+", "decision_type=12", "unknown feature or comparison"),
        (r"^decision_type=.*", "decision_type=1 1 1 1", "unknown category set"),
        (r"^leaf_value=\S+", "leaf_value=nan", "NaN or infinite"),
        (r"^leaf_value=\S+", "leaf_value=1e200", "implausible value"),
        (r"^leaf_value=\S+", "leaf_value=x", "not a number"),
        (r"^threshold=\S+", "threshold=nan", "NaN|unknown"),
        (r"^num_leaves=.*", "num_leaves=0", "0 leaves"),
        (r"^num_leaves=.*", "", "'num_leaves' is missing"),
        (r"^cat_boundaries=.*", "cat_boundaries=0 99", "category sets are damaged"),
        (r"^cat_threshold=\S+", "cat_threshold=-1", "more than 32 bits"),
        (r"^version=.*", "version=v2", "version 'v2'"),
        (r"^Tree=1", "Tree=2", "tree 1 is missing"),
        (r"^tree_sizes=\S+ ", "tree_sizes=", "has only"),
        (r"^num_tree_per_iteration=.*", "num_tree_per_iteration=0", "0 trees per iteration"),
        (r"^objective=.*", "objective=binary sigmoid:x", "steepness"),
        (r"^objective=.*", "objective=binary sigmoid:-1", "steepness -1"),
        (r"^objective=.*", "", "is not supported for classifiers"),
        (r"^max_feature_idx=.*", "max_feature_idx=9", "expected 10 different feature names, got 5"),
        (r"^pandas_categorical:.*", 'pandas_categorical:{"a": 1}', "not a list of categories"),
    ],
)
def test_a_broken_file(text, pattern, replacement, message):
    broken = re.sub(pattern, replacement, text, count=1, flags=re.MULTILINE)
    assert broken != text
    with pytest.raises(ModelError, match=message):
        read(broken)


@given(data=st.data())
@settings(max_examples=scaled(200))
def test_mutilated_text(text, data):
    """Characters, words and lines changed or left out: a model that answers, or a ModelError; nothing else."""
    body = text[: text.index("parameters:")]
    lines = body.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        kind = data.draw(st.sampled_from(["delete", "cut", "word", "character"]))
        if kind == "delete":
            del lines[place]
        elif kind == "cut":
            lines[place] = line[: data.draw(st.integers(0, len(line)))]
        elif kind == "word":
            words = re.split(r"([ =])", line)
            words[data.draw(st.integers(0, len(words) - 1))] = data.draw(
                st.sampled_from(["", "x", "-1", "0", "3", "999999999999", "1e400", "nan", "0.5", "9" * 30])
            )
            lines[place] = "".join(words)
        elif line:
            at = data.draw(st.integers(0, len(line) - 1))
            lines[place] = line[:at] + data.draw(st.characters(codec="ascii")) + line[at + 1 :]
    with contextlib.suppress(ModelError):
        assert np.isfinite(read("\n".join(lines)).scores(PEOPLE[:50])).all()
