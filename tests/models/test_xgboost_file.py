"""XGBoost's own files: the same answers as XGBoost, and clear refusals of everything else."""

import contextlib
import json
from copy import deepcopy

import borrowers
import numpy as np
import pytest
from borrowers import BINARY, FRAME, INPUTS, PEOPLE, SCHEMA, SCHEMA3, THREE, TOWN, assert_same, schema, worded
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models.readers.boosters import read_booster
from evenhand.models.readers.xgboost_file import parse_xgboost, read_xgboost
from support import scaled

xgboost = pytest.importorskip("xgboost", reason="needs xgboost")

TYPES = ["float", "float", "c", "c", "float"]


def train(labels=BINARY, inputs=INPUTS, *, rounds=12, categories=True, names=None, **parameters):
    matrix = xgboost.DMatrix(
        inputs, labels, feature_types=TYPES if categories else None, feature_names=names, enable_categorical=categories
    )
    defaults = {"objective": "binary:logistic", "nthread": 1, "seed": 1}
    if parameters.get("booster") != "gblinear":
        defaults |= {"max_depth": 4, "max_cat_to_onehot": 3}
    return xgboost.train(defaults | parameters, matrix, rounds), matrix


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_cat_to_onehot": 20},
        {"base_score": 0.2},
        {"num_parallel_tree": 3, "subsample": 0.5, "eta": 1.0, "rounds": 1},
        {"tree_method": "exact", "categories": False},
        {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
        {"gamma": 3.0, "max_depth": 7},
        {"objective": "reg:logistic"},
    ],
    ids=str,
)
def test_two_labels(tmp_path, parameters):
    booster, matrix = train(**parameters)
    path = tmp_path / "model.json"
    booster.save_model(path)
    model = read_xgboost(path, SCHEMA)
    assert (model.classes, model.favourable, model.name) == (("no", "yes"), 1, path.name)
    assert_same(model, PEOPLE, booster.predict(matrix))
    np.testing.assert_allclose(model.raw(PEOPLE)[:, 0], booster.predict(matrix, output_margin=True), atol=1e-5)


@pytest.mark.parametrize("parameters", [{}, {"base_score": 0.5}, {"num_parallel_tree": 2, "subsample": 0.5}], ids=str)
def test_three_labels(tmp_path, parameters):
    booster, matrix = train(THREE, objective="multi:softprob", num_class=3, rounds=6, **parameters)
    path = tmp_path / "model.json"
    booster.save_model(path)
    model = read_xgboost(path, SCHEMA3)
    assert (model.classes, model.favourable) == (("C", "B", "A"), 2)
    assert_same(model, PEOPLE, booster.predict(matrix))


def test_objectives_that_do_not_answer_with_probabilities():
    booster, matrix = train(objective="binary:logitraw")
    model = read_booster(booster, SCHEMA)
    np.testing.assert_allclose(model.raw(PEOPLE)[:, 0], booster.predict(matrix), atol=1e-5)
    np.testing.assert_array_equal(model.predict(PEOPLE), booster.predict(matrix) > 0)
    # Version 1 took base_score for a probability here too.
    document = json.loads(bytes(booster.save_raw("json")))
    score = float(document["learner"]["learner_model_param"]["base_score"].strip("[]"))
    document["version"] = [1, 7, 6]
    old = parse_xgboost(json.dumps(document).encode(), SCHEMA, location="old", stop_early=None)
    assert old.base[0] == pytest.approx(np.log(score / (1 - score)), abs=1e-6)
    assert model.base[0] == pytest.approx(score, abs=1e-6)
    booster, matrix = train(THREE, objective="multi:softmax", num_class=3)
    model = read_booster(booster, SCHEMA3)
    assert np.mean(model.predict(PEOPLE) == booster.predict(matrix)) > 0.999


def test_words_find_their_codes_by_name_and_columns_by_theirs():
    """Trained on a frame in another order of columns, its categories in the alphabet's order, the schema's in none."""
    frame = worded()[["sex", "balance", "home town", "age", "income"]]
    classifier = xgboost.XGBClassifier(
        n_estimators=10, max_depth=5, enable_categorical=True, max_cat_to_onehot=2, n_jobs=1
    ).fit(frame, BINARY)
    model = read_booster(classifier, SCHEMA)
    assert_same(model, PEOPLE, classifier.predict_proba(frame))
    assert len(model.nodes.words) > 0
    # The towns renamed in place: the model no longer knows any of them.
    with pytest.raises(ModelError, match="home town"):
        read_booster(classifier, schema(towns=["a", "b", "c", "d", "e", "f", "g"]))


def test_a_value_the_model_never_met_is_not_among_its_categories():
    frame = worded()
    classifier = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, max_cat_to_onehot=2, n_jobs=1)
    classifier.fit(frame, BINARY)
    known, wider = read_booster(classifier, SCHEMA), read_booster(classifier, schema(towns=["Ayr", *(TOWNS_AND_YORK)]))
    moved = PEOPLE.copy()
    moved[:, TOWN] += 1
    np.testing.assert_array_equal(known.scores(PEOPLE), wider.scores(moved))
    moved[:, TOWN] = 0
    assert np.isfinite(wider.scores(moved)).all()


TOWNS_AND_YORK = [*SCHEMA["home town"].values, "York"]


def test_early_stopping(tmp_path):
    classifier = xgboost.XGBClassifier(
        n_estimators=60, max_depth=6, learning_rate=1.0, early_stopping_rounds=3, n_jobs=1, feature_types=TYPES
    )
    half = len(INPUTS) // 2
    classifier.fit(INPUTS[:half], BINARY[:half], eval_set=[(INPUTS[half:], BINARY[half:])], verbose=False)
    rounds = classifier.get_booster().num_boosted_rounds()
    assert classifier.best_iteration + 1 < rounds
    classifier.save_model(tmp_path / "model.json")
    for model in (read_booster(classifier, SCHEMA), read_xgboost(tmp_path / "model.json", SCHEMA)):
        assert model.nodes.trees == classifier.best_iteration + 1
        assert_same(model, PEOPLE, classifier.predict_proba(INPUTS))
    booster = classifier.get_booster()
    everything = read_booster(booster, SCHEMA)
    assert everything.nodes.trees == rounds
    assert_same(everything, PEOPLE, booster.inplace_predict(INPUTS))


def test_a_value_that_was_never_missing_in_training():
    booster, _ = train()
    model = read_booster(booster, SCHEMA)
    for column in (1, 3):
        assert (model.nodes.feature == column).any()
        people = PEOPLE[:500].copy()
        people[:, column] = np.nan
        assert_same(model, people, booster.inplace_predict(SCHEMA.inputs(people)))


def test_inputs_at_the_threshold_and_beside_it():
    """Where float32 rounds decides: every threshold, its neighbours in float64, and the middles to its neighbours."""
    booster, _ = train(categories=False, rounds=4)
    model = read_booster(booster, SCHEMA)
    nodes = model.nodes
    cuts = nodes.threshold[nodes.feature == 0]
    assert len(cuts) > 5
    people = borrowers.people_beside(cuts)
    margins = booster.predict(xgboost.DMatrix(SCHEMA.inputs(people)), output_margin=True)
    np.testing.assert_allclose(model.raw(people)[:, 0], margins, atol=1e-5)


def test_encodings_reach_the_model():
    hot = schema(town_encoding="one-hot")
    inputs = hot.inputs(PEOPLE)
    names = ["income", "age", *(f"home town_{town}" for town in hot["home town"].values), "sex", "balance"]
    shuffled = [4, 0, 10, 1, 2, 3, 5, 6, 7, 8, 9]
    for order, given_names in ((range(11), None), (range(11), names), (shuffled, [names[i] for i in shuffled])):
        booster, matrix = train(inputs=inputs[:, list(order)], categories=False, names=given_names)
        assert_same(read_booster(booster, hot), PEOPLE, booster.predict(matrix))
    # Names of one-hot columns that cannot be matched: the columns are taken in order, the number must fit.
    other = [name.replace("home town_", "town=") for name in names]
    booster, matrix = train(inputs=inputs, categories=False, names=other)
    assert_same(read_booster(booster, hot), PEOPLE, booster.predict(matrix))
    with pytest.raises(ModelError, match=r"'home_?.?town|'town=Wells'"):
        read_booster(booster, SCHEMA)
    booster, _ = train(inputs=inputs, categories=False)
    with pytest.raises(ModelError, match="takes 11 inputs, but the schema's 5 attributes have 5"):
        read_booster(booster, SCHEMA)
    numbers = schema(town_encoding=[7, 1.5, -3, 0, 2, 8, 4])
    booster, matrix = train(inputs=numbers.inputs(PEOPLE), categories=False)
    assert_same(read_booster(booster, numbers), PEOPLE, booster.predict(matrix))


def test_a_model_of_some_attributes():
    frame = FRAME[["balance", "age"]]
    classifier = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(frame, BINARY)
    assert_same(read_booster(classifier, SCHEMA), PEOPLE, classifier.predict_proba(frame))


@pytest.fixture(scope="module")
def small():
    booster, _ = train(rounds=2, max_depth=2, names=["income", "age", "home town", "sex", "balance"])
    return json.loads(bytes(booster.save_raw("json")))


def read(document):
    return parse_xgboost(json.dumps(document).encode(), SCHEMA, location="model.json", stop_early=None)


def test_files_of_older_versions(small):
    """Before 3.1 a scalar base_score and no named categories; before 1.3 no categories, flags as booleans."""
    now = read(small).scores(PEOPLE)
    small = deepcopy(small)
    learner = small["learner"]
    assert learner["learner_model_param"]["base_score"].startswith("[")
    learner["learner_model_param"]["base_score"] = learner["learner_model_param"]["base_score"].strip("[]")
    del learner["gradient_booster"]["model"]["cats"]
    np.testing.assert_array_equal(read(small).scores(PEOPLE), now)
    booster, _ = train(rounds=2, max_depth=2, categories=False)
    old = json.loads(bytes(booster.save_raw("json")))
    now = read(old).scores(PEOPLE)
    del old["learner"]["gradient_booster"]["model"]["iteration_indptr"]
    for tree in old["learner"]["gradient_booster"]["model"]["trees"]:
        for key in [key for key in tree if key.startswith("categories") or key == "split_type"]:
            del tree[key]
        tree["default_left"] = [bool(flag) for flag in tree["default_left"]]
        tree["tree_param"]["size_leaf_vector"] = "0"
    np.testing.assert_array_equal(read(old).scores(PEOPLE), now)


def test_what_is_refused():
    linear, _ = train(inputs=np.nan_to_num(INPUTS), booster="gblinear", categories=False)
    with pytest.raises(ModelError, match="gblinear"):
        read_booster(linear, SCHEMA)
    regression, _ = train(objective="reg:squarederror")
    with pytest.raises(ModelError, match="'reg:squarederror' is not supported for classifiers"):
        read_booster(regression, SCHEMA)
    with pytest.raises(ModelError, match="not fitted"):
        read_booster(xgboost.XGBClassifier(), SCHEMA)
    with pytest.raises(ModelError, match="treats the number -1 as missing"):
        read_booster(xgboost.XGBClassifier(missing=-1.0, n_estimators=1, n_jobs=1).fit(INPUTS[:, :1], BINARY), SCHEMA)
    with pytest.raises(ModelError, match="not an XGBoost, LightGBM or CatBoost model"):
        read_booster(object(), SCHEMA)
    booster, _ = train(inputs=FRAME[["age", "balance"]].to_numpy(), categories=False, names=["age", "height"])
    with pytest.raises(ModelError, match="'height', which is not an attribute"):
        read_booster(booster, SCHEMA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree["left_children"].__setitem__(1, 0), "not a tree"),
        (lambda tree: tree["right_children"].__setitem__(0, tree["left_children"][0]), "not a tree"),
        (lambda tree: tree["left_children"].__setitem__(0, 99), "child 99"),
        (lambda tree: tree["right_children"].__setitem__(0, -1), "a single child"),
        (lambda tree: tree["left_children"].__setitem__(0, -1), "a single child"),
        (lambda tree: tree["left_children"].__setitem__(-1, -7), "a single child"),
        (lambda tree: tree["right_children"].__setitem__(0, -7), "unknown feature or child"),
        (lambda tree: tree["tree_param"].__setitem__("size_leaf_vector", "2"), "several outputs each"),
        (lambda tree: tree["split_indices"].__setitem__(0, 5), "unknown feature or child"),
        (lambda tree: tree["split_conditions"].__setitem__(-1, float("nan")), "NaN or infinite"),
        (lambda tree: tree["split_conditions"].__setitem__(-1, 1e300), "NaN or infinite"),
        (lambda tree: tree["split_conditions"].pop(), "split_conditions"),
        (lambda tree: tree["tree_param"].__setitem__("num_nodes", "3x"), "num_nodes"),
        (lambda tree: tree.__setitem__("categories_nodes", []), "categories_segments|lists none"),
        (lambda tree: tree.__setitem__("categories", []), "lists of categories"),
    ],
)
def test_a_broken_tree(small, change, message):
    document = deepcopy(small)
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    change(next(tree for tree in trees if len(tree["categories_nodes"]) > 0))
    with pytest.raises(ModelError, match=message):
        read(document)


@pytest.mark.parametrize(
    "score", ["", "[]", "[1E-1,2E-1]", "half", "[1.5]", "[1e400]", "nan", None, {}, [[0.1], [0.2]]]
)
def test_a_base_score_that_is_none(small, score):
    document = deepcopy(small)
    document["learner"]["learner_model_param"]["base_score"] = score
    with pytest.raises(ModelError, match="base_score"):
        read(document)


def parts(value, path=()):
    """Where every value of a document stands."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from parts(inner, (*path, key))


@given(data=st.data())
@settings(max_examples=scaled(150))
def test_mutilated_documents(small, data):
    """Any part deleted or replaced: a model that answers, or a ModelError; nothing else, and never for ever."""
    document = deepcopy(small)
    *way, last = data.draw(st.sampled_from([path for path in parts(document) if path]))
    holder = document
    for key in way:
        holder = holder[key]
    others = [None, True, -1, 0, 1, 3, 1.5, 1e300, 10**30, float("nan"), "", "7", "x", [], [1], [[1]], {}, {"a": 1}]
    if data.draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = data.draw(st.sampled_from(others))
    with contextlib.suppress(ModelError):
        assert np.isfinite(read(document).scores(PEOPLE[:50])).all()


def test_damaged_binary_files(tmp_path):
    booster, matrix = train(rounds=2, max_depth=2)
    content = bytes(booster.save_raw("ubj"))
    path = tmp_path / "model.ubj"
    path.write_bytes(content)
    assert_same(read_xgboost(path, SCHEMA), PEOPLE, booster.predict(matrix))
    for damaged in (content[: len(content) // 2], content[:300] + b"\xff" * 8 + content[308:]):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match="library cannot read it"):
            read_xgboost(path, SCHEMA)
