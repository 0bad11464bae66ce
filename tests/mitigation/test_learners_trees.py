import json

import numpy as np
import pytest
from learnt import FRAME, NAMES, WORDS, accuracy, learns, people, read_back, schema

from evenhand.errors import ModelError, OptionError
from evenhand.mitigation.learners.boosting import infer_parameters
from evenhand.mitigation.learners.choose import find_learner
from evenhand.mitigation.split import TrainingSet

THREE = schema(values=("no", "later", "yes"))
LATER = FRAME.assign(granted=np.where((FRAME["income"] > 30) & (FRAME["income"] < 45), "later", FRAME["granted"]))
PEOPLE = people()
INPUTS = WORDS.inputs(PEOPLE.individuals)
LABELS = PEOPLE.labels


@pytest.fixture(scope="module")
def xgboost():
    return pytest.importorskip("xgboost", reason="needs xgboost")


@pytest.fixture(scope="module")
def lightgbm():
    return pytest.importorskip("lightgbm", reason="needs lightgbm")


def xgb(library, rounds=25, labels=LABELS, named=True, types=None, **parameters):
    data = library.DMatrix(
        INPUTS, labels, feature_names=NAMES if named else None, feature_types=types, enable_categorical=True
    )
    return library.train({"objective": "binary:logistic", "nthread": 1, **parameters}, data, rounds)


def lgb(library, rounds=25, labels=LABELS, asked=(), **parameters):
    data = library.Dataset(INPUTS, labels, feature_name=NAMES, categorical_feature=list(asked))
    more = {"objective": "binary", "num_threads": 1, "deterministic": True, "force_col_wise": True, "verbosity": -1}
    return library.train(more | parameters, data, rounds)


@pytest.mark.parametrize("suffix", ["json", "ubj", None])
def test_xgboost(xgboost, tmp_path, suffix):
    booster = xgb(xgboost, eta=0.4, max_depth=3)
    path = tmp_path / f"given.{suffix}"
    if suffix:
        booster.save_model(path)
    learner = find_learner(path if suffix else booster, WORDS)
    plain = learns(learner, PEOPLE)
    assert learner.endings == ((".ubj", ".json") if suffix == "ubj" else (".json", ".ubj"))
    for _, read in read_back(learner, plain, tmp_path):
        np.testing.assert_array_equal(read.scores(PEOPLE.individuals), plain.scores(PEOPLE.individuals))


@pytest.mark.parametrize(
    "parameters",
    [
        {"eta": 0.07, "max_depth": 4, "lambda": 3.5, "subsample": 0.7, "colsample_bytree": 0.5, "seed": 4},
        {"eta": 0.2, "max_depth": 3, "alpha": 0.5, "scale_pos_weight": 2, "min_child_weight": 2},
        {"booster": "dart", "rate_drop": 0.2, "max_depth": 3},
        {"num_parallel_tree": 3, "subsample": 0.5, "max_depth": 3, "seed": 1},
        {"base_score": 0.3, "max_leaves": 5, "grow_policy": "lossguide", "max_depth": 0},
    ],
    ids=["shares", "alpha", "dart", "forest", "leaves"],
)
def test_a_model_in_memory_is_grown_to_the_same_again(xgboost, parameters):
    learner = find_learner(xgb(xgboost, **parameters), WORDS)
    again = learner.fit(TrainingSet.plain(PEOPLE), seed=0)
    np.testing.assert_array_equal(again.scores(PEOPLE.individuals), learner.given.scores(PEOPLE.individuals))


@pytest.mark.parametrize("parameters", [{"eta": 0.07, "lambda": 3.5}, {"eta": 0.5, "lambda": 0.0}, {}])
def test_a_file_tells_how_its_trees_were_grown(xgboost, tmp_path, parameters):
    booster = xgb(xgboost, max_depth=4, **parameters)
    told = infer_parameters(json.loads(booster.save_raw("json")))
    assert told["max_depth"] == 4
    assert told["eta"] == pytest.approx(parameters.get("eta", 0.3), rel=1e-3)
    assert told["lambda"] == pytest.approx(parameters.get("lambda", 1.0), abs=1e-3)
    booster.save_model(tmp_path / "m.json")
    learner = find_learner(tmp_path / "m.json", WORDS)
    again = learner.fit(TrainingSet.plain(PEOPLE), seed=0)
    np.testing.assert_allclose(
        again.scores(PEOPLE.individuals), learner.given.scores(PEOPLE.individuals), rtol=0, atol=1e-3
    )


SET = {"subsample": 0.6, "alpha": 0.5, "eta": 0.2, "lambda": 2.0, "min_child_weight": 3.0, "max_depth": 3, "seed": 5}


def test_parameters_that_a_file_states_are_kept_and_the_others_are_named(xgboost, tmp_path):
    booster = xgb(xgboost, **SET)
    booster.save_model(tmp_path / "silent.json")
    # As classifiers of older versions wrote themselves.
    stated = {
        "learning_rate": 0.2,
        "reg_alpha": 0.5,
        "reg_lambda": 2.0,
        "random_state": 5,
        "gamma": 0.0,
        "missing": None,
    }
    booster.set_attr(scikit_learn=json.dumps(stated | {name: SET[name] for name in ("subsample", "min_child_weight")}))
    booster.save_model(tmp_path / "stated.json")
    silent, told = (find_learner(tmp_path / f"{name}.json", WORDS) for name in ("silent", "stated"))
    again = told.fit(TrainingSet.plain(PEOPLE), seed=0)
    np.testing.assert_array_equal(again.scores(PEOPLE.individuals), told.given.scores(PEOPLE.individuals))
    assert "subsample" not in told.caution
    assert "colsample_bytree" in told.caution
    assert "alpha, gamma, subsample" in silent.caution
    assert find_learner(booster, WORDS).caution == ""


def test_a_lightgbm_file_keeps_all_parameters(lightgbm, tmp_path):
    booster = lgb(lightgbm, bagging_fraction=0.6, bagging_freq=1, lambda_l1=0.3, bagging_seed=4, seed=3)
    booster.save_model(tmp_path / "m.txt")
    learner = find_learner(tmp_path / "m.txt", WORDS)
    again = learner.fit(TrainingSet.plain(PEOPLE), seed=0)
    np.testing.assert_array_equal(again.scores(PEOPLE.individuals), learner.given.scores(PEOPLE.individuals))
    assert learner.caution == ""


def test_a_model_loaded_into_memory_is_not_taken_for_the_defaults(xgboost, tmp_path):
    xgb(xgboost, eta=0.05, max_depth=3, **{"lambda": 4}).save_model(tmp_path / "m.json")
    loaded = xgboost.Booster()
    loaded.load_model(tmp_path / "m.json")
    file, memory = (
        find_learner(source, WORDS).fit(TrainingSet.plain(PEOPLE), seed=0) for source in (tmp_path / "m.json", loaded)
    )
    np.testing.assert_array_equal(file.scores(PEOPLE.individuals), memory.scores(PEOPLE.individuals))


def test_trees_that_do_not_agree_tell_nothing_wrong(xgboost):
    told = infer_parameters(json.loads(xgb(xgboost, eta=0.2, max_delta_step=0.3, max_depth=4).save_raw("json")))
    assert "lambda" not in told or told["lambda"] == pytest.approx(1, abs=0.2)
    assert infer_parameters(json.loads(xgb(xgboost, max_depth=1).save_raw("json")))["max_depth"] == 1


def test_growth_by_hand():
    """A root whose two children were split into two leaves each: G and H of the four leaves are chosen."""
    first, second = np.array([3.0, 1.0, 4.0, 2.0]), np.array([4.0, 2.0, 6.0, 3.0])
    g = np.array([first.sum(), first[:2].sum(), first[2:].sum(), *first])
    h = np.array([second.sum(), second[:2].sum(), second[2:].sum(), *second])
    weights = -g / (h + 2.0)
    weights[3:] *= 0.25
    tree = {
        "left_children": [1, 3, 5, -1, -1, -1, -1],
        "right_children": [2, 4, 6, -1, -1, -1, -1],
        "base_weights": weights.tolist(),
        "sum_hessian": h.tolist(),
    }
    booster = {"model": {"trees": [tree], "gbtree_model_param": {"num_parallel_tree": "1"}}}
    told = infer_parameters({"learner": {"gradient_booster": booster}})
    assert told == pytest.approx({"max_depth": 2, "lambda": 2.0, "eta": 0.25})


def test_xgboost_of_several_labels_and_categories(xgboost, tmp_path):
    given = people(THREE, LATER)
    booster = xgb(xgboost, labels=given.labels, objective="multi:softprob", num_class=3, types=["q", "q", "c", "c"])
    booster.save_model(tmp_path / "m.ubj")
    for source in (booster, tmp_path / "m.ubj"):
        learner = find_learner(source, THREE)
        plain = learns(learner, given)
        assert plain.classes == ("no", "later", "yes")


def test_early_stopping_counts_in_a_file_of_a_classifier(xgboost, tmp_path):
    model = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=2, eta=0.5, max_depth=2, n_jobs=1)
    model.fit(INPUTS[:300], LABELS[:300], eval_set=[(INPUTS[300:], 1 - LABELS[300:])], verbose=False)
    model.save_model(tmp_path / "m.json")
    learner = find_learner(tmp_path / "m.json", WORDS)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    made = learner.fit(TrainingSet.plain(PEOPLE), seed=0)
    assert len(learner.models[made].get_dump()) == model.best_iteration + 1
    again = find_learner(model, WORDS).fit(TrainingSet.plain(PEOPLE), seed=0)
    assert again.model.n_estimators == model.best_iteration + 1


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_lightgbm(lightgbm, tmp_path, kind):
    booster = lgb(lightgbm, asked=(2, 3), learning_rate=0.2, num_leaves=7, bagging_fraction=0.7, bagging_freq=1, seed=3)
    booster.save_model(tmp_path / "given.txt")
    learner = find_learner(booster if kind == "memory" else tmp_path / "given.txt", WORDS)
    plain = learns(learner, PEOPLE)
    np.testing.assert_array_equal(plain.scores(PEOPLE.individuals), learner.given.scores(PEOPLE.individuals))
    ((ending, read),) = read_back(learner, plain, tmp_path)
    assert ending == ".txt"
    np.testing.assert_array_equal(read.scores(PEOPLE.individuals), plain.scores(PEOPLE.individuals))


def test_lightgbm_of_several_labels(lightgbm):
    given = people(THREE, LATER)
    learner = find_learner(lgb(lightgbm, labels=given.labels, objective="multiclass", num_class=3), THREE)
    assert learns(learner, given).classes == ("no", "later", "yes")


def test_nothing_is_said_on_standard_output(xgboost, lightgbm, capfd):
    for booster in (xgb(xgboost), lgb(lightgbm)):
        find_learner(booster, WORDS).fit(TrainingSet.plain(PEOPLE), seed=0)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("family", ["xgboost", "lightgbm"])
def test_classifiers_are_fitted_anew(request, family, tmp_path):
    library = request.getfixturevalue(family)
    model = (
        library.XGBClassifier(n_estimators=9, subsample=0.8, n_jobs=2)
        if family == "xgboost"
        else library.LGBMClassifier(n_estimators=20, subsample=0.8, subsample_freq=1, n_jobs=2, verbose=-1)
    )
    learner = find_learner(model.fit(INPUTS, LABELS), WORDS)
    plain = learns(learner, PEOPLE)
    assert plain.model.get_params()["n_jobs"] == 2
    assert plain.model.get_params()["random_state"] == 5
    for _, read in read_back(learner, plain, tmp_path, trust=True):
        np.testing.assert_array_equal(read.scores(PEOPLE.individuals), plain.scores(PEOPLE.individuals))


def test_what_cannot_be_grown_is_refused(xgboost, lightgbm, tmp_path, monkeypatch):
    learner = find_learner(xgb(xgboost), WORDS)
    with pytest.raises(OptionError, match=r"'\.txt'"):
        learner.save(learner.given, tmp_path / "m.txt")
    with pytest.raises(ModelError, match="expected trees of this learner"):
        learner.save(learner.given, tmp_path / "m.json")
    text = lgb(lightgbm).model_to_string()
    (tmp_path / "m.txt").write_text(text.partition("\nparameters:")[0] + "\n")
    with pytest.raises(ModelError, match="section of training parameters is missing") as refusal:
        find_learner(tmp_path / "m.txt", WORDS).fit(TrainingSet.plain(PEOPLE), seed=0)
    assert "`fit=module:function`" in refusal.value.hint
    with pytest.raises(ModelError, match="cannot be trained again") as refusal:
        find_learner(learner.given, WORDS)  # trees alone: what grew them is gone
    assert "`fit=module:function`" in refusal.value.hint
    assert accuracy(learner.given, PEOPLE) > 0.9
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    with pytest.raises(ModelError, match="xgboost is not installed") as refusal:
        learner.fit(TrainingSet.plain(PEOPLE), seed=0)
    assert refusal.value.hint == "pip install xgboost"
