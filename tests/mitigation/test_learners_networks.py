import itertools
import json

import numpy as np
import pandas as pd
import pytest
from learnt import FRAME, SCALED, WORDS, accuracy, learns, people, read_back, schema

torch = pytest.importorskip("torch", reason="needs the extra torch")
from learnt import learner_of

from evenhand.errors import DataError, ModelError, OptionError
from evenhand.mitigation.learners.dense import train_layers, write_npz
from evenhand.mitigation.split import TrainingSet
from evenhand.models import AdditiveNetwork, predict_labels
from evenhand.models.additive.network import LineTerm, StepTerm, TableTerm, network_fingerprint, network_from_dense
from evenhand.schema import encode
from support import shared, small_schema

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
