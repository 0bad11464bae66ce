import numpy as np
import pytest
from learnt import FRAME, NAMES, SCALED, WORDS, learner_of, people, schema, turned
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from evenhand.errors import ModelError, OptionError
from evenhand.mitigation.learners.function import FunctionLearner
from evenhand.mitigation.split import TrainingSet
from evenhand.models import load_model
from evenhand.models.additive.network import network_from_dense

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
