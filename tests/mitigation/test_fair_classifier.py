"""Fair classifiers and networks that are trained again."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from learnt import FRAME, SCALED, WORDS, accuracy, learns, people, read_back, schema

torch = pytest.importorskip("torch", reason="needs the extra torch")

import sklearn
from learnt import learner_of
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import evenhand
from evenhand import datasets
from evenhand.errors import DataError, ModelError, OptionError
from evenhand.mitigation import FairClassifier
from evenhand.mitigation.learners.dense import train_layers, write_npz
from evenhand.mitigation.split import TrainingSet
from evenhand.mitigation.training.encoding import NO_GROUP, joint_groups, number_groups
from evenhand.models import AdditiveNetwork, predict_labels
from evenhand.models.additive.network import LineTerm, StepTerm, TableTerm, network_fingerprint, network_from_dense
from evenhand.schema import encode, infer_schema
from support import draw_frame, shared, small_schema

SMALL = {"hidden": (16, 8), "steps": 40}


@pytest.fixture(scope="module")
def german():
    data = datasets.load_dataset("german")
    schema = data.schema.with_protected(["sex"])
    return schema, data.frame[list(schema.names)], data.frame[schema.target.name]


@pytest.fixture(scope="module")
def adult():
    data = datasets.load_dataset("adult")
    schema = data.schema.with_protected(["sex"])
    people = encode(schema, data.frame)
    rows = np.random.default_rng(0).permutation(len(people))
    words = np.array(schema.target.values)[people.labels]
    return schema, people.individuals, words, rows[:6000], rows[6000:14000]


def weights(model):
    network = model.network_
    arrays = [network.bias, *(array for layer in network.layers for array in (layer.weights, layer.bias))]
    return np.concatenate([array.ravel() for array in arrays])


def gap(model, individuals, column):
    favoured = model.network_.predict(individuals) == model.network_.favourable
    return abs(favoured[individuals[:, column] == 0].mean() - favoured[individuals[:, column] == 1].mean())


def test_labels_stay_in_the_words_of_the_data(german):
    schema, frame, labels = german
    model = FairClassifier(schema=schema, **SMALL).fit(frame, labels)
    assert model.classes_.tolist() == [1, 2]
    assert set(model.predict(frame)) <= {1, 2}
    assert model.network_.classes == (2, 1)
    assert model.score(frame, labels) > 0.7  # the share of the greater label, which one answer for all would reach
    probabilities = model.predict_proba(frame)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert (model.predict(frame) == model.classes_[probabilities.argmax(axis=1)]).all()
    assert ((model.decision_function(frame) > 0) == (model.predict(frame) == 2)).all()


def test_the_white_box_answers_the_same(german):
    schema, frame, labels = german
    model = FairClassifier("diffdp", schema=schema, **SMALL).fit(frame, labels)
    individuals = encode(schema, frame).individuals
    scores = model.network_.scores(individuals)
    assert np.array_equal(model.predict_proba(frame), scores[:, [model.network_.classes.index(c) for c in (1, 2)]])
    # And so does a plain forward pass through the features it was trained on.
    features = model.encoding_.features(individuals).astype(np.float64)
    units = features @ np.concatenate([_rows(part, block) for part, block in _seen(model)]) + _shift(model)
    for layer in model.network_.layers:
        units = np.maximum(units, 0) @ layer.weights + layer.bias
    assert np.allclose(units, model.network_.logits(individuals), atol=1e-5)


def _seen(model):
    return zip(model.network_.parts, model.encoding_.blocks, strict=True)


def _rows(part, block):
    return part.rows if hasattr(part, "rows") else (part.slope * block.scale)[None]


def _shift(model):
    lines = [part.intercept + part.slope * block.offset for part, block in _seen(model) if not hasattr(part, "rows")]
    return model.network_.bias + np.sum(lines, axis=0)


@pytest.mark.parametrize("method", ["erm", "diffdp", "hsic", "laftr", "prejudice-remover", "logit-pairing"])
def test_the_same_seed_gives_the_same_bits(german, method):
    schema, frame, labels = german
    individuals, rows = encode(schema, frame).individuals, labels.to_numpy()
    made = FairClassifier(method, schema=schema, **SMALL)
    first = weights(made.fit(individuals, rows))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(12345)
    state = torch.get_rng_state()
    try:
        second = weights(made.fit(individuals, rows))
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.get_rng_state(), state)
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, weights(clone(made).set_params(seed=1).fit(individuals, rows)))


@pytest.mark.parametrize(("method", "strength"), [("diffdp", 1.0), ("hsic", 100.0), ("prejudice-remover", 10.0)])
def test_a_stronger_penalty_leaves_a_smaller_gap_on_adult(adult, method, strength):
    schema, individuals, labels, train, test = adult
    found = []
    for weight in (0.0, strength):
        model = FairClassifier(
            method, strength=weight, schema=schema, sees_protected=False, hidden=(32, 16), steps=100, batch_size=512
        )
        model.fit(individuals[train], labels[train])
        right = (model.predict(individuals[test]) == labels[test]).mean()
        found.append((gap(model, individuals[test], schema.position("sex")), right))
    (wide, best), (narrow, right) = found
    assert wide > 0.12
    assert narrow < wide / 3
    assert right > best - 0.04
    assert right > 0.80  # nobody above 50K: 0.76


def test_the_groups_compared_may_be_given(adult):
    schema, individuals, labels, train, test = adult
    column = schema.position("marital_status")
    married = individuals[:, column] == schema["marital_status"].values.index("Married-civ-spouse")
    model = FairClassifier("diffdp", strength=2.0, schema=schema, hidden=(32,), steps=100, batch_size=512)
    model.fit(individuals[train], labels[train], sensitive_features=married[train])
    favoured = model.network_.predict(individuals[test]) == model.network_.favourable
    assert abs(favoured[married[test]].mean() - favoured[~married[test]].mean()) < 0.15
    plain = FairClassifier(schema=schema, hidden=(32,), steps=100, batch_size=512)
    plain.fit(individuals[train], labels[train])
    favoured = plain.network_.predict(individuals[test]) == plain.network_.favourable
    assert abs(favoured[married[test]].mean() - favoured[~married[test]].mean()) > 0.25


def test_what_a_network_does_not_see_weighs_exactly_nothing(german):
    schema, frame, labels = german
    schema = schema.with_protected(["sex", "age"])
    model = FairClassifier(schema=schema, sees_protected=False, **SMALL).fit(frame, labels)
    category, number = (model.network_.parts[schema.position(name)] for name in ("sex", "age"))
    assert not category.rows.any()
    assert not number.slope.any()
    assert not number.intercept.any()


@pytest.mark.parametrize("stop", ["keys", "time"])
def test_what_was_reached_is_kept_when_somebody_stops_it(german, stop):
    schema, frame, labels = german
    rows = encode(schema, frame).individuals

    def each(step):
        if step == 7 and stop == "keys":
            raise KeyboardInterrupt

    model = FairClassifier(schema=schema, hidden=(16,), steps=40)
    model.fit(rows, labels.to_numpy(), each=each, deadline=0.0 if stop == "time" else None)
    done = 7 if stop == "keys" else 0
    assert model.interrupted_
    assert len(model.history_) == done
    assert len(model.predict(frame)) == len(frame)
    if done:
        # The learning rate falls with the share of the steps, so 7 of 40 steps are the first 7 of any longer course.
        begun = FairClassifier(schema=schema, hidden=(16,), steps=40)
        seen = []
        begun.fit(rows, labels.to_numpy(), each=seen.append)
        assert not begun.interrupted_
        assert seen == list(range(1, 41))
        assert begun.history_[:done] == model.history_


def test_people_with_missing_values_are_left_out_where_the_schema_says_so(german):
    schema, frame, labels = german
    described = schema.model_dump()
    described["attributes"][schema.position("housing")]["missing"] = "drop"
    frame = frame.copy()
    frame["housing"] = frame["housing"].astype(object)
    frame.loc[frame.index[:50], "housing"] = None
    model = FairClassifier(schema=type(schema).parse(described), **SMALL).fit(frame, labels)
    shorter = FairClassifier(schema=schema, **SMALL).fit(frame[50:], labels[50:])
    assert np.array_equal(weights(model), weights(shorter))
    with pytest.raises(DataError, match="50 of 1000 rows"):
        model.predict(frame)


def test_errors_say_what_is_wrong(german):
    schema, frame, labels = german
    with pytest.raises(OptionError, match="method 'fair'"):
        FairClassifier("fair", schema=schema).fit(frame, labels)
    with pytest.raises(OptionError, match="at least 0, got -1"):
        FairClassifier(strength=-1, schema=schema).fit(frame, labels)
    with pytest.raises(DataError, match="999 labels for 1000 rows"):
        FairClassifier(schema=schema).fit(frame, labels[:999])
    with pytest.raises(DataError, match="expected two labels"):
        FairClassifier(schema=schema).fit(frame[labels == 1], labels[labels == 1])
    with pytest.raises(DataError, match="3 is not a value of the target"):
        FairClassifier(schema=schema).fit(frame, labels.replace({2: 3}))
    with pytest.raises(DataError, match=r"shape \(n, 20\)"):
        FairClassifier(schema=schema).fit(np.zeros((5, 3)), [1, 2, 1, 2, 1])
    with pytest.raises(DataError, match="expected the same number of rows"):
        FairClassifier("diffdp", schema=schema).fit(frame, labels, sensitive_features=[0, 1])
    for method in ("diffdp", "hsic", "laftr", "prejudice-remover"):
        with pytest.raises(OptionError, match="compares groups, but the training set has fewer than two"):
            FairClassifier(method, schema=schema, protected=()).fit(frame, labels)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("schema", None, "a schema"),
        ("hidden", 5, "integers of at least 1"),
        ("hidden", (0,), "integers of at least 1"),
        ("hidden", (2.5,), "integers of at least 1"),
        ("hidden", ("a",), "integers of at least 1"),
        ("steps", 0, "an integer of at least 1"),
        ("steps", 2.5, "an integer of at least 1"),
        ("steps", True, "an integer of at least 1"),
        ("batch_size", 2.5, "an integer of at least 1"),
        ("seed", None, "an integer of at least 0"),
        ("seed", -1, "an integer of at least 0"),
        ("seed", 2**70, "an integer of at least 0, below"),
        ("strength", "a", "a number of at least 0"),
        ("strength", float("inf"), "a number of at least 0"),
        ("learning_rate", 0, "a number above 0"),
        ("learning_rate", "a", "a number above 0"),
        ("protected", 5, "a list of names"),
        ("start", 5, "a network over the schema"),
    ],
)
def test_parameters_that_make_no_sense_are_named_at_fit(german, name, value, expected):
    model = FairClassifier(**{"schema": german[0], name: value})
    with pytest.raises(OptionError) as raised:
        model.fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert raised.value.location == f"`{name}=`"
    assert f"expected {expected}" in raised.value.message
    assert repr(value) in raised.value.message
    assert raised.value.hint


def test_weights_beyond_all_numbers_are_no_network(german):
    schema, frame, labels = german
    with pytest.raises(ModelError, match="weights infinite"):
        FairClassifier(schema=schema, learning_rate=1e30, hidden=(8, 8), steps=20).fit(frame, labels)


def test_small_groups_are_taken_together_or_are_nobodys():
    schema = datasets.load_dataset("adult").schema.with_protected(["race", "sex"])
    rows = np.zeros((1000, len(schema.attributes)))
    race, sex = schema.positions(["race", "sex"])
    rows[:400, sex] = 1
    rows[400:425, race] = 1
    rows[425:450, race] = 2
    groups = joint_groups(schema, rows, ("race", "sex"))
    assert np.unique(groups[400:450]).tolist() == [2]  # 25 and 25: too few each, enough together
    assert set(groups[:400]) | set(groups[450:]) == {0, 1}
    assert len(set(groups[:400])) == 1
    rows[400:440, race] = 0
    groups = joint_groups(schema, rows, ("race", "sex"))
    assert (groups[440:450] == NO_GROUP).all()
    assert joint_groups(schema, rows, ()).tolist() == [NO_GROUP] * 1000


def test_given_groups_are_numbered_and_never_fewer_than_two_while_there_are_two():
    assert number_groups(np.array(["b"] * 40 + ["a"] * 40)).tolist() == [1] * 40 + [0] * 40
    # A small subgroup against everybody else is what somebody asked about.
    assert number_groups(np.array([1] * 3 + [0] * 500)).tolist() == [1] * 3 + [0] * 500


@pytest.fixture(scope="module")
def applicants():
    """Return people with words, truth values and categories, and their schema."""
    rng = np.random.default_rng(0)
    frame = draw_frame(rng, 300, age=(18, 69), sex="F M").astype({"sex": "category"})
    frame = frame.assign(owns=rng.random(300) < 0.5, income=rng.lognormal(10, 0.5, 300))
    frame.index = rng.permutation(300)
    labels = pd.Series(np.where(frame["income"] > 22_000 + 3_000 * frame["owns"], "yes", "no"), frame.index)
    schema = infer_schema(frame.assign(paid=labels), target="paid", favourable="yes", protected=["sex"])
    return schema, frame, labels


def test_an_inferred_schema_is_enough_for_mixed_columns(applicants):
    schema, frame, labels = applicants
    model = FairClassifier("diffdp", schema=schema, hidden=(16,), steps=100).fit(frame, labels)
    assert model.score(frame, labels) > 0.85
    assert model.feature_names_in_.tolist() == list(frame)
    result = evenhand.audit(model, frame, labels, schema=schema, max_boxes=10)
    assert result.groups.people == len(frame)


def test_a_missing_label_is_named(applicants):
    schema, frame, labels = applicants
    unknown = labels.astype(object).mask(np.arange(300) < 3)
    for given in (unknown, unknown.fillna(np.nan), unknown.astype("string")):
        with pytest.raises(DataError, match=r"(?s)the label is missing in 3 of 300 rows.*notna"):
            FairClassifier(schema=schema, **SMALL).fit(frame, given)


def test_groups_are_handed_on_as_metadata(applicants):
    schema, frame, labels = applicants
    rng = np.random.default_rng(0)
    groups = pd.DataFrame({"owns": frame["owns"].to_numpy(), "old": rng.random(300) < 0.5}, frame.index)
    with sklearn.config_context(enable_metadata_routing=True):
        model = FairClassifier("diffdp", strength=4.0, schema=schema, **SMALL)
        grid = GridSearchCV(model.set_fit_request(sensitive_features=True), {"strength": [0.0, 4.0]}, cv=2)
        grid.fit(frame, labels, sensitive_features=groups)
        joint = 2 * groups["owns"] + groups["old"]
        together, alone = (clone(model).fit(frame, labels, sensitive_features=given) for given in (groups, joint))
    assert grid.best_score_ > 0.6
    assert np.array_equal(weights(together), weights(alone))


THREE = schema("no later yes", plain=False)
LATER = FRAME.assign(granted=np.where((FRAME["income"] > 30) & (FRAME["income"] < 45), "later", FRAME["granted"]))


def layers(width, outputs=1, hidden=(8, 6), seed=3):
    rng = np.random.default_rng(seed)
    widths = [width, *hidden, outputs]
    return [
        (rng.normal(size=pair) / np.sqrt(pair[0]), rng.normal(size=pair[1]) / 4) for pair in itertools.pairwise(widths)
    ]


def learnt_well(described, frame=FRAME, outputs=1):
    """Layers that already decide as the data does: the start that a real model gives."""
    steps = layers(described.width, outputs)
    given = people(described, frame)
    learner = learner_of(_network(described, steps), described)
    for seed in range(4):
        learner = learner_of(learner.fit(TrainingSet(given, *_again(given, 5000)), seed=seed), described)
    return learner.layers


def _network(described, steps):
    values = described.target.values if len(steps[-1][1]) > 1 else ("no", "yes")
    return network_from_dense(described, list(steps), classes=values, favourable=values.index("yes"))


def _again(given, count):
    rows = np.random.default_rng(0).integers(0, len(given), count)
    return given.individuals[rows], given.labels[rows]


@pytest.fixture(scope="module")
def two():
    return learnt_well(SCALED)


@pytest.fixture(scope="module")
def three():
    return learnt_well(THREE, LATER, 3)


def test_numpy_networks(two, tmp_path):
    write_npz(two, tmp_path / "given.npz")
    learner = learner_of(tmp_path / "given.npz", SCALED)
    given = people(SCALED)
    plain = learns(learner, given)
    ((_, read),) = read_back(learner, plain, tmp_path)
    assert network_fingerprint(read) == network_fingerprint(plain)
    assert plain.name == "given.npz"
    assert plain.hidden == (8, 6)


def test_threads_and_the_state_of_pytorch_play_no_part(two):
    learner = learner_of(_network(SCALED, two), SCALED)
    lesson = TrainingSet.plain(people(SCALED))
    threads = torch.get_num_threads()
    made = []
    for asked in (1, 2, 3):
        torch.set_num_threads(asked)
        torch.manual_seed(asked)
        state = torch.random.get_rng_state()
        made.append(network_fingerprint(learner.fit(lesson, seed=9)))
        assert torch.get_num_threads() == asked
        assert torch.equal(torch.random.get_rng_state(), state)
        assert not torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    assert len(set(made)) == 1
    assert network_fingerprint(learner.fit(lesson, seed=10)) != made[0]


def test_a_step_of_descent_by_hand(monkeypatch):
    """One person, one step of Adam: every weight that matters moves by the learning rate, against its gradient."""
    from evenhand.mitigation.learners import dense

    monkeypatch.setattr(dense, "EPOCHS", 1)
    layers = [(np.array([[1.0], [1.0]]), np.array([0.0]))]
    inputs = np.array([[3.0, 5.0], [1.0, 5.0]])  # standardised: +1 and -1; the second never varies
    ((weights, bias),) = train_layers(layers, inputs, np.array([0, 1]), seed=0, location="m")
    # Logits are 8 and 6, sigmoid(8) - 0 and sigmoid(6) - 1: the gradient of the first weight is positive, and of the
    # bias too. Folded: weight 1 * 1, bias 0 + 2 + 5 = 7. Each moves down by 0.001, and is folded out again.
    np.testing.assert_allclose(weights, [[0.999], [1.0]], atol=1e-8)
    np.testing.assert_allclose(bias, [6.999 - 2 * 0.999 - 5], atol=1e-8)


def test_a_table_of_its_own_is_refused():
    network = _network(WORDS, layers(4))
    bent = (*network.parts[:3], TableTerm(np.arange(24.0).reshape(3, 8) ** 2, 0.0))
    stepped = (StepTerm(np.array([40.0]), np.ones((2, 8))), *network.parts[1:])
    for parts in (bent, stepped):
        changed = AdditiveNetwork(WORDS, parts, network.bias, network.layers, network.classes, 1)
        with pytest.raises(ModelError, match=r"lookup table|through bins") as refusal:
            learner_of(changed, WORDS)
        assert "`fit=module:function`" in refusal.value.hint
    assert isinstance(network.parts[0], LineTerm)


def test_what_cannot_be_learnt_or_written_is_refused(two, tmp_path):
    learner = learner_of(_network(SCALED, two), SCALED)
    given = people(SCALED)
    with pytest.raises(OptionError, match=r"'\.skops'") as refusal:
        learner.save(learner.given, tmp_path / "m.skops")
    assert ".npz" in refusal.value.hint
    with pytest.raises(OptionError, match="no such folder"):
        learner.save(learner.given, tmp_path / "absent" / "m.npz")
    missing = given.individuals[:1].copy()
    missing[0, 1] = np.nan
    with pytest.raises(ModelError, match="missing value"):
        learner.fit(TrainingSet(given, missing, np.zeros(1, dtype=np.int64)), seed=0)
    three = learner_of(network_from_dense(SCALED, layers(6, 3), classes=("no", "yes", "never")), SCALED)
    with pytest.raises(DataError, match="cannot predict the label 'later'"):
        three.fit(TrainingSet.plain(people(THREE, LATER)), seed=0)


def test_the_census_network_keeps_its_accuracy(tmp_path):
    domain = json.loads(shared("data", "testing", "domains.json").read_text())["adult"]
    names = domain["attributes"]
    ranges = [(int(low), int(high)) for low, high in domain["bounds"]]
    described = small_schema([0, 1], target="income", **dict(zip(names, ranges, strict=True)))
    with np.load(shared("data", "testing", "data", "adult.npz")) as arrays:
        frames = [
            pd.DataFrame(arrays[f"X_{part}"].astype(int), columns=names).assign(
                income=arrays[f"y_{part}"].astype(int).ravel()
            )
            for part in ("train", "test")
        ]
    train_people, test_people = (encode(described, frame) for frame in frames)
    learner = learner_of(shared("data", "testing", "models", "adult.npz"), described)
    made = learner.fit(TrainingSet.plain(train_people), seed=0)
    before, after = (
        (predict_labels(model, test_people.individuals) == test_people.labels).mean() for model in (learner.given, made)
    )
    assert before == pytest.approx(0.8471, abs=1e-4)
    assert after > before - 0.004
    assert any(not np.array_equal(a[0], b[0]) for a, b in zip(made.dense, learner.layers, strict=True))


@pytest.fixture(scope="module")
def keras():
    pytest.importorskip("h5py", reason="needs the extra keras")
    return pytest.importorskip("keras", reason="needs keras")


def keras_file(keras, steps, path, *, outputs=1, front=(), end=None):
    import logging

    inner = [keras.layers.Dense(len(bias), activation="relu") for _, bias in steps[:-1]]
    last = keras.layers.Dense(outputs, activation=end or ("sigmoid" if outputs == 1 else "softmax"))
    model = keras.Sequential([keras.layers.Input((len(steps[0][0]),)), *front, *inner, keras.layers.Dropout(0.2), last])
    for layer, (weights, bias) in zip([*inner, last], steps, strict=True):
        layer.set_weights([weights, bias])
    log = logging.getLogger("absl")
    before, log.disabled = log.disabled, True  # "HDF5 is considered legacy"
    try:
        model.save(path)
    finally:
        log.disabled = before
    return path


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras itself
@pytest.mark.parametrize("file", ["given.keras", "given.h5"])
def test_keras_files_are_trained_as_dense_networks(keras, two, tmp_path, file):
    front = [
        keras.layers.Normalization(mean=[0.1, 0.2, 0.5, 0.3, 0.3, 0.3], variance=[1, 0.5, 0.3, 0.2, 0.2, 0.2]),
        keras.layers.Rescaling(0.5, offset=0.1),
        keras.layers.BatchNormalization(),
    ]
    path = keras_file(keras, two, tmp_path / file, front=front)
    learner = learner_of(path, SCALED)
    given = people(SCALED)
    assert accuracy(learner.fit(TrainingSet.plain(given), seed=0), given) > accuracy(learner.given, given)
    learner = learner_of(keras_file(keras, two, path), SCALED)
    plain = learns(learner, given)
    ((ending, read),) = read_back(learner, plain, tmp_path)
    assert ending == ".npz"
    np.testing.assert_allclose(read.scores(given.individuals), plain.scores(given.individuals), atol=1e-12)
