"""Learners: estimators and functions of the user."""

import signal
from contextlib import suppress

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from learnt import FRAME, NAMES, SCALED, WORDS, learner_of, learns, people, read_back, schema, turned
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from evenhand.errors import ModelError, OptionError, TrustError
from evenhand.mitigation.learners.function import FunctionLearner
from evenhand.mitigation.split import TrainingSet
from evenhand.models import load_model
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import encode


def prepared(model):
    columns = make_column_transformer(
        (StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["sex", "town"]), sparse_threshold=0
    )
    return make_pipeline(columns, model)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        RandomForestClassifier(15),
        HistGradientBoostingClassifier(max_iter=20),
        SGDClassifier(loss="log_loss", max_iter=2000),
        VotingClassifier([("tree", DecisionTreeClassifier(max_features=2)), ("lines", LogisticRegression())]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_pipelines_learn_from_frames(tmp_path, model):
    learner = learner_of(prepared(model).fit(FRAME[NAMES], FRAME["granted"]), WORDS, like=FRAME)
    given = people()
    plain = learns(learner, given)
    for _, read in read_back(learner, plain, tmp_path, like=FRAME, trust=True):
        np.testing.assert_array_equal(read.scores(given.individuals), plain.scores(given.individuals))
    for name, value in plain.model.get_params(deep=True).items():
        assert not name.endswith("random_state") or value == 5


class Stubborn(LogisticRegression):
    """Answers Ctrl-C as scikit-learn's networks do: with a model that is trained in part."""

    def fit(self, X, y):
        with suppress(KeyboardInterrupt):
            signal.getsignal(signal.SIGINT)(signal.SIGINT, None)
        return super().fit(X, y)


def test_a_model_whose_training_was_interrupted_is_not_taken(interruptible):
    learner = learner_of(prepared(Stubborn()).fit(FRAME[NAMES], FRAME["granted"]), WORDS, like=FRAME)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(TrainingSet.plain(people()), seed=1)


class Recording(BaseEstimator):
    """Remembers what it was fitted on."""

    def fit(self, X, y):
        self.seen_, self.labels_, self.classes_ = X, y, np.unique(y)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        else:
            self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return np.resize(self.classes_, len(X))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_holds_the_real_rows_and_the_added_words(kind):
    # A spare column, another order, stray spaces and a column type of the user's own; every third person only.
    odd = FRAME.assign(sex=" " + FRAME["sex"], town=FRAME["town"].astype("category"), spare=1)
    columns = ["town", "age", "sex"]
    frame = odd if kind == "pandas" else pl.from_pandas(odd)
    given = encode(WORDS, frame).at(np.arange(0, 400, 3))
    model = Recording().fit(frame[columns], FRAME["granted"].to_numpy())
    learner = learner_of(model, WORDS)
    lesson, person = turned(learner.given, given, copies=2)
    made = learner.fit(lesson, seed=0)
    seen = made.model.seen_
    assert type(seen) is type(frame)
    assert list(seen.columns) == columns
    real, added = seen[: len(given)], seen[len(given) :]
    expected = frame[columns][::3]
    assert real.to_numpy().tolist() == expected.to_numpy().tolist()
    described = WORDS.attributes
    town = described[3].values[int(person[0, 3])], int(person[0, 0]), described[2].values[int(person[0, 2])]
    assert [tuple(row) for row in added.to_numpy().tolist()] == [town, town]
    assert list(seen.dtypes) == list(frame[columns].dtypes)
    assert made.model.labels_.tolist() == [
        *FRAME["granted"][::3],
        *[lesson.people.schema.target.values[lesson.labels[0]]] * 2,
    ]


def test_arrays_of_words_and_of_numbers():
    given = people()
    words = FRAME[NAMES].to_numpy(dtype=object)
    coded = make_column_transformer((OrdinalEncoder(), [2, 3]), remainder="passthrough")
    model = make_pipeline(coded, DecisionTreeClassifier()).fit(words, FRAME["granted"])
    learner = learner_of(model, WORDS)
    assert learner.given.form == "words"
    learner.fit(TrainingSet.plain(given), seed=0)
    numbers = people(SCALED)
    model = LogisticRegression().fit(SCALED.inputs(numbers.individuals), np.where(FRAME["granted"] == "yes", 1, 0))
    learner = learner_of(model, SCALED)
    plain = learns(learner, numbers)
    assert plain.model.classes_.tolist() == [0, 1]
    seen = Recording().fit(SCALED.inputs(numbers.individuals), np.array(["yes", "no"] * 200))
    lesson, person = turned(learner.given, numbers, copies=3)
    made = learner_of(seen, SCALED).fit(lesson, seed=0)
    np.testing.assert_array_equal(made.model.seen_[-3:], np.repeat(SCALED.inputs(person), 3, axis=0))


def test_labels_are_the_models_own_words():
    for words in (FRAME["granted"] == "yes", np.where(FRAME["granted"] == "yes", 1, 0), FRAME["granted"]):
        model = prepared(LogisticRegression()).fit(FRAME[NAMES], words)
        made = learner_of(model, WORDS, like=FRAME).fit(TrainingSet.plain(people()), seed=0)
        assert made.model.classes_.tolist() == model.classes_.tolist()
        assert made.classes == ("no", "yes")
        np.testing.assert_allclose(made.model[-1].coef_, model[-1].coef_, rtol=1e-9)


def test_a_category_that_the_part_lacks_stays_known():
    """Somebody from the town that nobody of the part learnt from lives in can still be answered."""
    model = prepared(LogisticRegression()).fit(FRAME[NAMES], FRAME["granted"])
    given = people()
    part = given.at(np.flatnonzero(FRAME["town"] != "Rye"))
    made = learner_of(model, WORDS, like=FRAME).fit(TrainingSet.plain(part), seed=0)
    assert made.scores(given.individuals).shape == (400, 2)
    assert made.model[-1].coef_.shape == model[-1].coef_.shape
    inside = FeatureUnion([("codes", make_pipeline(OrdinalEncoder(), StandardScaler())), ("hot", OneHotEncoder())])
    nested = make_pipeline(
        make_column_transformer((inside, ["sex", "town"]), sparse_threshold=0), DecisionTreeClassifier()
    ).fit(FRAME[NAMES], FRAME["granted"])
    made = learner_of(nested, WORDS, like=FRAME).fit(TrainingSet.plain(part), seed=0)
    assert made.predict(given.individuals).shape == (400,)


def test_files(tmp_path):
    model = prepared(LogisticRegression()).fit(FRAME[NAMES], FRAME["granted"])
    joblib.dump(model, tmp_path / "given.joblib")
    with pytest.raises(TrustError):
        learner_of(tmp_path / "given.joblib", WORDS, like=FRAME)
    learner = learner_of(str(tmp_path / "given.joblib"), WORDS, like=FRAME, trust=True)
    assert learner.endings == (".joblib", ".skops", ".pkl")
    made = learner.fit(TrainingSet.plain(people()), seed=0)
    assert made.name == "given.joblib"
    assert learner.name == "a Pipeline, refitted with its own parameters"
    with pytest.raises(OptionError, match=r"'\.npz'") as refusal:
        learner.save(made, tmp_path / "m.npz")
    assert ".joblib or .skops or .pkl" in refusal.value.hint


class Unclonable:
    """Has no parameters to be made again from."""

    classes_ = np.array(["no", "yes"])

    def predict(self, X):
        return np.full(len(X), "yes")


class Failing(Recording):
    def fit(self, X, y):
        raise RuntimeError("out of luck\nand more")


def test_what_cannot_be_fitted_again_is_refused():
    failing = Failing()
    Recording.fit(failing, FRAME[NAMES], FRAME["granted"].to_numpy())
    for model, says in ((Unclonable(), "TypeError"), (failing, r"out of luck\n")):
        learner = learner_of(model, WORDS)
        with pytest.raises(ModelError, match=f"refitting the estimator failed.*{says}") as refusal:
            learner.fit(TrainingSet.plain(people()), seed=0)
        assert "`fit=module:function`" in refusal.value.hint


def test_a_frame_of_whole_numbers_takes_added_halves():
    """Midpoints of bins are not a whole numbers: the column becomes one of numbers rather than lose them."""
    described = schema().model_dump(mode="json", exclude_none=True)
    described["attributes"][0] = {"name": "age", "kind": "ordinal", "edges": [18, 31, 50, 81]}
    binned = type(WORDS).parse(described)
    given = encode(binned, FRAME)
    model = prepared(LogisticRegression()).fit(FRAME[NAMES], FRAME["granted"])
    learner = learner_of(model, binned, like=FRAME)
    made = learner.fit(TrainingSet(given, given.individuals[:5], given.labels[:5]), seed=0)
    assert isinstance(FRAME, pd.DataFrame)
    assert made.predict(given.individuals).shape == (400,)


@pytest.mark.parametrize("family", ["xgboost", "lightgbm"])
def test_boosted_classifiers_are_fitted_anew(family, tmp_path):
    library = pytest.importorskip(family, reason=f"needs {family}")
    model = (
        library.XGBClassifier(n_estimators=9, subsample=0.8, n_jobs=2)
        if family == "xgboost"
        else library.LGBMClassifier(n_estimators=20, subsample=0.8, subsample_freq=1, n_jobs=2, verbose=-1)
    )
    given = people()
    learner = learner_of(model.fit(WORDS.inputs(given.individuals), given.labels), WORDS)
    plain = learns(learner, given)
    assert plain.model.get_params()["n_jobs"] == 2
    assert plain.model.get_params()["random_state"] == 5
    for _, read in read_back(learner, plain, tmp_path, trust=True):
        np.testing.assert_array_equal(read.scores(given.individuals), plain.scores(given.individuals))


GIVEN = people()


def own_fit(frame, labels):
    """What a user writes."""
    hot = make_column_transformer((OneHotEncoder(), ["sex", "town"]), remainder="passthrough")
    return make_pipeline(hot, DecisionTreeClassifier(random_state=0)).fit(frame, labels)


def answers_only(frame):
    return np.where(frame["income"] > 50, "yes", "no")


def test_without_a_function_only_the_answers_are_known():
    with pytest.raises(ModelError, match="cannot be retrained") as refusal:
        learner_of(answers_only, WORDS)
    assert refusal.value.location == "answers_only"
    assert "`fit=module:function`" in refusal.value.hint
    with pytest.raises(ModelError, match="no such file"):
        learner_of("absent.npz", WORDS)


def test_the_users_function_is_given_the_datas_own_words(tmp_path):
    seen = []

    def fit(frame, labels):
        seen.append((frame, labels))
        return own_fit(frame, labels)

    learner = learner_of(answers_only, WORDS, like=FRAME, fit=fit)
    lesson, person = turned(load_model(answers_only, WORDS), GIVEN, copies=700)
    made = learner.fit(lesson, seed=4)
    frame, labels = seen[0]
    assert list(frame.columns) == NAMES
    assert frame[:400].equals(FRAME[NAMES])
    assert frame["town"].iloc[-1] == FRAME["town"][0]
    assert labels[:400].tolist() == FRAME["granted"].tolist()
    assert set(labels[400:]) == {"yes" if FRAME["income"][0] <= 50 else "no"}
    assert made.classes[int(made.predict(person)[0])] == labels[-1]
    for file in ("m.joblib", "m.pkl"):
        assert learner.save(made, tmp_path / file) == (tmp_path / file,)
        read = load_model(tmp_path / file, WORDS, like=FRAME, trust=True)
        np.testing.assert_array_equal(read.scores(GIVEN.individuals), made.scores(GIVEN.individuals))
    with pytest.raises(OptionError, match=r"'\.npz'"):
        learner.save(made, tmp_path / "m.npz")
    assert learner.name == "trained by fit"


def test_a_seed_is_given_to_whoever_takes_one():
    seeds = []

    def fit(frame, labels, seed):
        seeds.append(seed)
        return answers_only

    learner = learner_of(answers_only, WORDS, fit=fit)
    learner.fit(TrainingSet.plain(GIVEN), seed=17)
    assert seeds == [17]


def test_a_function_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "training_of_mine.py").write_text(
        "from sklearn.dummy import DummyClassifier\n"
        "def fit(frame, labels):\n    return DummyClassifier().fit(frame, labels)\n"
        "def broken(frame, labels):\n    raise KeyError('no such column\\nand more')\n"
        "def nothing(frame, labels):\n    frame['more'] = 1\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    made = learner_of(answers_only, WORDS, fit="training_of_mine:fit").fit(TrainingSet.plain(GIVEN), seed=0)
    assert (
        made.predict(GIVEN.individuals).tolist() == [0] * 400 or made.predict(GIVEN.individuals).tolist() == [1] * 400
    )
    for name, says in (("broken", "the training function failed: KeyError"), ("nothing", "expected a model, got None")):
        learner = learner_of(answers_only, WORDS, fit=f"training_of_mine:{name}")
        with pytest.raises(ModelError, match=says) as refusal:
            learner.fit(TrainingSet.plain(GIVEN), seed=0)
        assert refusal.value.location == f"training_of_mine:{name}"
    with pytest.raises(OptionError, match="expected a training function"):
        learner_of(answers_only, WORDS, fit="training_of_mine:number")
    with pytest.raises(OptionError, match="expected a training function"):
        learner_of(answers_only, WORDS, fit="training_of_mine")
    with pytest.raises(ModelError, match="no 'absent' in training_of_mine"):
        learner_of(answers_only, WORDS, fit="training_of_mine:absent")


def test_a_network_of_the_users_is_written_for_numpy(tmp_path):
    weights = [(np.arange(24.0).reshape(6, 4) / 10, np.ones(4)), (np.ones((4, 1)), -np.ones(1))]
    learner = learner_of(answers_only, SCALED, fit=lambda frame, labels: network_from_dense(SCALED, weights))
    made = learner.fit(TrainingSet.plain(people(SCALED)), seed=0)
    learner.save(made, tmp_path / "m.npz")
    individuals = people(SCALED).individuals
    np.testing.assert_allclose(
        load_model(tmp_path / "m.npz", SCALED).logits(individuals), made.logits(individuals), rtol=1e-12
    )
    with pytest.raises(OptionError, match=r"'\.joblib'"):
        learner.save(made, tmp_path / "m.joblib")


def test_a_pytorch_model_of_the_users(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    learner = learner_of(answers_only, SCALED, fit=lambda frame, labels: torch.nn.Linear(6, 1))
    made = learner.fit(TrainingSet.plain(people(SCALED)), seed=0)
    individuals = people(SCALED).individuals
    learner.save(made, tmp_path / "m.pt")
    read = load_model(tmp_path / "m.pt", SCALED, trust=True)
    np.testing.assert_allclose(read.scores(individuals), made.scores(individuals), atol=1e-7)


def test_trees_of_the_users(tmp_path):
    xgboost = pytest.importorskip("xgboost", reason="needs xgboost")

    def fit(frame, labels):
        coded = frame[["age", "income"]].assign(
            sex=frame["sex"].map({"Female": 0, "Male": 1}), town=frame["town"].map({"Ely": 0, "Rye": 1, "Ware": 2})
        )
        return xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(coded, np.asarray(labels) == "yes"), 5)

    learner = learner_of(answers_only, WORDS, fit=fit)
    made = learner.fit(TrainingSet.plain(GIVEN), seed=0)
    learner.save(made, tmp_path / "m.ubj")
    read = load_model(tmp_path / "m.ubj", WORDS)
    np.testing.assert_array_equal(read.scores(GIVEN.individuals), made.scores(GIVEN.individuals))
    with pytest.raises(OptionError, match=r"'\.txt'"):
        learner.save(made, tmp_path / "m.txt")


def test_what_cannot_be_written_is_said(tmp_path):
    learner = learner_of(answers_only, WORDS, fit=lambda frame, labels: lambda asked: answers_only(asked))
    made = learner.fit(TrainingSet.plain(GIVEN), seed=0)
    with pytest.raises(ModelError, match="cannot be written"):
        learner.save(made, tmp_path / "m.pkl")
    assert not (tmp_path / "m.pkl").exists()
    with pytest.raises(ModelError, match="expected a model from this learner"):
        learner.save(load_model(answers_only, WORDS), tmp_path / "m.pkl")


def test_a_model_of_other_labels_is_refused():
    learner = FunctionLearner.of(own_fit, schema("later yes"), like=None)
    with pytest.raises(ModelError, match="the model returns 'no', 'yes', but the target 'granted' has the labels"):
        learner.fit(TrainingSet.plain(GIVEN), seed=0)
