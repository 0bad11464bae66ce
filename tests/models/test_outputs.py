"""The meaning of numeric outputs: decided by their values and the true labels, for every kind of model."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand
from evenhand.errors import EvenhandError, ModelError, NotAdditiveError, OptionError
from evenhand.models import load_model, load_white_box, predict_labels
from evenhand.models.outputs import association, read_outputs
from evenhand.models.replies import match_labels
from evenhand.schema import Schema
from support import scaled, small_schema

SCHEMA = small_schema(a=(0, 6), b=(-3, 4), sex="f m *").with_encodings({"sex": "code"})
PEOPLE = np.array(list(itertools.product(range(7), range(-3, 5), (0, 1))), dtype=float)
LOGITS = PEOPLE @ [1, 1, 1.5] - 4.25
"""One function of the people, in which sex changes some signs."""
FRAME = pd.DataFrame({"a": PEOPLE[:, 0], "b": PEOPLE[:, 1], "sex": np.where(PEOPLE[:, 2] == 1, "m", "f")}).astype(
    {"a": int, "b": int}
)
DATA = FRAME.assign(hired=np.where(LOGITS + np.random.default_rng(0).normal(0, 2, len(PEOPLE)) > 0, "yes", "no"))
UNKNOWN = np.full(1000, -1)


def logit(frame):
    return (frame["a"] + frame["b"] + 1.5 * (frame["sex"] == "m") - 4.25).to_numpy(dtype=float)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


ENDINGS = {
    "logit": lambda z: z,
    "small logit": lambda z: z / 5,
    "hinge": lambda z: np.clip(z, -1, 1),
    "sigmoid": sigmoid,
    "1 - sigmoid(-z)": lambda z: 1 - sigmoid(-z),
    "hard sigmoid": lambda z: np.clip(0.2 * z + 0.5, 0, 1),
    "probability with rounding": lambda z: np.clip(0.2 * z + 0.5, -1e-7, 1 + 1e-7),
    "0 and 1": lambda z: (z > 0).astype(float),
    "whole 0 and 1": lambda z: (z > 0).astype(int),
    "two probabilities": lambda z: np.stack([sigmoid(-z), sigmoid(z)], axis=1),
    "two logits": lambda z: np.stack([-z, z], axis=1),
    "two margins": lambda z: np.stack([z * 0, z], axis=1),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("data", [None, DATA], ids=["schema", "data"])
def test_the_same_function_decides_alike_whatever_it_ends_in(ending, data):
    scorer = load_model(lambda frame: ENDINGS[ending](logit(frame)), SCHEMA, like=data)
    np.testing.assert_array_equal(predict_labels(scorer, PEOPLE) == scorer.favourable, LOGITS > 0)
    scores = scorer.scores(PEOPLE)[:, scorer.favourable]
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scorer.label_only == ("0 and 1" in ending)


@settings(max_examples=scaled(100))
@given(st.lists(st.floats(-1e-7, 1 + 1e-7), min_size=3, max_size=30, unique=True))
def test_values_within_0_and_1_are_probabilities(values):
    outputs = np.array([*values, 0.001, 0.999])[:, None]
    reading = read_outputs(outputs, UNKNOWN[: len(outputs)], ("no", "yes"), 1, 1, stated=None, location="m")
    reply = reading.reply(outputs, ("no", "yes"), 1, location="m")
    assert reading.kind == "probability"
    np.testing.assert_array_equal(reply.labels == 1, outputs[:, 0] > 0.5)


@settings(max_examples=scaled(100))
@given(st.lists(st.floats(-1e6, 1e6), max_size=30), st.floats(0.01, 1e6), st.floats(0.01, 1e6))
def test_values_of_both_signs_decide_at_0(values, below, above):
    outputs = np.array([*values, -below, above])[:, None]
    reading = read_outputs(outputs, UNKNOWN[: len(outputs)], ("no", "yes"), 1, 1, stated=None, location="m")
    assert reading.kind == "score"
    reply = reading.reply(outputs, ("no", "yes"), 1, location="m")
    np.testing.assert_array_equal(reply.labels == 1, outputs[:, 0] > 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda z: 50 + 5 * z,  # percentages
        lambda z: np.rint(100 * sigmoid(5 * z - 5)),  # rounded percentages, some of which are 0
        lambda z: 600 + 20 * z,  # points
        lambda z: np.log(sigmoid(z)),  # logarithms of probabilities
        lambda z: z - 100,
        lambda z: 0 * z + 0.3,
    ],
)
def test_asks_where_the_values_leave_it_open(change):
    with pytest.raises(ModelError) as caught:
        load_model(lambda frame: change(logit(frame)), SCHEMA, like=DATA)
    assert "`output=logit`" in caught.value.hint
    for output in ("logit", "score"):
        scorer = load_model(lambda frame: change(logit(frame)), SCHEMA, like=DATA, output=output)
        np.testing.assert_array_equal(scorer.predict(PEOPLE) == 1, change(LOGITS) > 0)


def draw(probability, seed=0):
    return (np.random.default_rng(seed).random(len(probability)) < probability).astype(int)


def test_true_labels_contradict_a_reading():
    rng = np.random.default_rng(1)
    narrow = rng.uniform(0.2, 0.9, 2000)
    classes = ("no", "yes")

    def kind(values, truth):
        return read_outputs(values[:, None], truth, classes, 1, 1, stated=None, location="m").kind

    assert kind(narrow, draw(narrow)) == "probability"
    with pytest.raises(ModelError):  # they are calibrated as logits
        kind(narrow - 0.15, draw(sigmoid(narrow - 0.15)))
    regression = np.append(rng.uniform(-0.2, 0.4, 1999), -0.1)  # of a rare label
    with pytest.raises(ModelError):
        kind(regression, draw(np.clip(regression, 0, 1)))
    signed = np.append(rng.normal(0, 0.3, 1999), -0.1)
    assert kind(signed, draw(sigmoid(20 * signed))) == "score"
    with pytest.raises(ModelError):  # of the other label
        kind(signed, 1 - draw(sigmoid(20 * signed)))
    overfitted = np.append(draw(rng.random(1999)).astype(float), 0.5)  # hard and often wrong
    assert kind(overfitted, np.where(rng.random(2000) < 0.3, 1 - overfitted, overfitted).round().astype(int)) == (
        "probability"
    )


def test_a_probability_of_0_needs_true_labels():
    recidivism = Schema.parse(SCHEMA.model_dump() | {"target": {"name": "recid", "favourable": 0, "values": [0, 1]}})
    data = FRAME.assign(recid=1 - draw(sigmoid(LOGITS)))
    favourable = lambda frame: sigmoid(logit(frame))  # noqa: E731
    with pytest.raises(ModelError):
        load_model(favourable, recidivism)
    with pytest.raises(ModelError):
        load_model(lambda frame: 1 - favourable(frame), recidivism, like=data)
    for scorer in (
        load_model(favourable, recidivism, like=data),
        load_model(favourable, recidivism, output="probability"),
        load_model(lambda frame: (logit(frame) <= 0).astype(int), recidivism),  # its labels
    ):
        np.testing.assert_array_equal(scorer.predict(PEOPLE) == scorer.favourable, LOGITS > 0)


def test_what_was_decided_is_told():
    scorer = load_model(lambda frame: sigmoid(logit(frame)), SCHEMA, like=DATA)
    assert "probability" in scorer.caution
    assert "0.5" in scorer.caution
    assert load_model(lambda frame: np.where(logit(frame) > 0, "yes", "no"), SCHEMA, like=DATA).caution == ""


@pytest.mark.parametrize("output", ["percent", "labels", ""])
def test_refuses_an_unknown_meaning(output):
    with pytest.raises(OptionError):
        load_model(logit, SCHEMA, output=output)


def test_refuses_a_stated_meaning_of_labels():
    with pytest.raises(ModelError):
        load_model(lambda frame: np.where(logit(frame) > 0, "yes", "no"), SCHEMA, output="logit")
    with pytest.raises(ModelError):
        load_model(logit, SCHEMA, output="probability")


def test_a_later_value_outside_0_and_1_is_an_error():
    asked = []

    def model(frame):
        asked.append(len(frame))
        return sigmoid(logit(frame)) * (1 if len(asked) == 1 else 3)

    scorer = load_model(model, SCHEMA)
    with pytest.raises(ModelError):
        scorer.predict(PEOPLE)


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_association_of_little_data_is_finite(count):
    rng = np.random.default_rng(count)
    assert np.isfinite(association(rng.random(count), rng.integers(0, 2, count)))
    assert association(np.ones(count), rng.integers(0, 2, count)) == 0


# Models that answer 0 and 1 where the target has two other labels.


def numbered(truth):
    linear = pytest.importorskip("sklearn.linear_model")
    return linear.LogisticRegression().fit(FRAME[["a", "b"]], truth)


@pytest.mark.parametrize("values", [["no", "yes"], ["yes", "no"]])
def test_zero_and_one_are_compared_with_true_labels(values):
    schema = Schema.parse(SCHEMA.model_dump() | {"target": {"name": "hired", "favourable": "yes", "values": values}})
    right, wrong = numbered((DATA["hired"] == "yes").astype(int)), numbered((DATA["hired"] == "no").astype(int))
    scorer = load_model(right, schema, like=DATA)
    assert scorer.classes[scorer.favourable] == "yes"
    assert "1 was interpreted as 'yes'" in scorer.caution
    with pytest.raises(ModelError):
        load_model(wrong, schema, like=DATA)
    if values == ["no", "yes"]:
        assert load_model(wrong, schema).caution
    else:
        with pytest.raises(ModelError):
            load_model(right, schema)
        unrelated = DATA.assign(hired=np.random.default_rng(0).permutation(DATA["hired"].to_numpy()))
        with pytest.raises(EvenhandError):
            load_model(right, schema, like=unrelated)


# Networks: the certificate has the threshold of the audit.


@pytest.mark.parametrize(
    ("end", "inside"),
    [("logit", True), ("sigmoid", True), ("1 - sigmoid(-z)", False), ("hard", False), ("leaky", True)],
)
def test_networks_are_read_as_they_are_asked(end, inside):
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    linear = torch.nn.Linear(3, 1)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1, 1, 1.5]]))
        linear.bias.copy_(torch.tensor([-4.25]))

    class Complement(torch.nn.Module):
        def forward(self, z):
            return 1 - torch.sigmoid(-z)

    ends = {
        "logit": [],
        "sigmoid": [torch.nn.Sigmoid()],
        "1 - sigmoid(-z)": [Complement()],
        "hard": [torch.nn.Hardsigmoid()],
        "leaky": [torch.nn.LeakyReLU(0.5)],
    }
    network = torch.nn.Sequential(linear, *ends[end])
    scorer = load_model(network, SCHEMA, like=DATA)
    np.testing.assert_array_equal(scorer.predict(PEOPLE) == 1, LOGITS > 0)
    if not inside:
        with pytest.raises(NotAdditiveError):
            load_white_box(network, SCHEMA)
        return
    found = evenhand.certify(network, schema=SCHEMA, protected=["sex"])
    pairs = (LOGITS > 0).reshape(-1, 2)
    assert found.falsified == pytest.approx(np.mean(pairs[:, 0] != pairs[:, 1]), abs=1e-9)
    assert found.caution == load_model(network, SCHEMA).caution != ""


def test_a_network_whose_probability_no_sigmoid_computes_is_no_white_box():
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    network = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.ReLU(), torch.nn.Linear(1, 1))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1, 1, 1.5]]))
        network[0].bias.copy_(torch.tensor([3.0]))
        network[2].weight.fill_(0.06)
        network[2].bias.fill_(0.0)
    assert load_model(network, SCHEMA).reading.kind == "probability"
    with pytest.raises(NotAdditiveError, match="probability"):
        load_white_box(network, SCHEMA)
    assert load_white_box(network, SCHEMA, output="logit").predict(PEOPLE).mean() > 0.9


def target_schema(favourable, values=None):
    return Schema.parse(
        {
            "target": {"name": "t", "favourable": favourable, "values": values},
            "attributes": [{"name": "a", "kind": "integer", "lower": 0, "upper": 1}],
        }
    )


@pytest.mark.parametrize(
    ("favourable", "values", "answers", "expected"),
    [
        ("yes", ["yes", "no"], ["no", "yes"], (("no", "yes"), 1)),
        ("yes", ["yes", "no"], ["yes", "no"], (("yes", "no"), 0)),
        (1, [1, 2], np.array([1.0, 2.0]), ((1, 2), 0)),
        (1, [0, 1], ["0", "1"], ((0, 1), 1)),
        ("1", ["0", "1"], [0, 1], (("0", "1"), 1)),
        (">50K", ["<=50K", ">50K"], [" <=50K", " >50K"], (("<=50K", ">50K"), 1)),
        (True, [False, True], np.array([False, True]), ((False, True), 1)),
        ("yes", ["no", "yes"], [0, 1], (("no", "yes"), 1)),
        ("yes", ["yes", "no"], [0, 1], (("no", "yes"), 1)),
        ("yes", ["no", "yes"], [False, True], (("no", "yes"), 1)),
        (1, [1, 2], [0, 1], ((2, 1), 1)),
        ("yes", None, ["no", "yes", "later"], (("no", "yes", "later"), 1)),
        ("yes", None, [0, 1], (("not yes", "yes"), 1)),
        ("a", ["a", "b", "c"], ["c", "a"], (("c", "a"), 1)),
    ],
)
def test_answers_stand_for_labels(favourable, values, answers, expected):
    assert match_labels(target_schema(favourable, values), answers, location="m")[:2] == expected


@pytest.mark.parametrize(
    ("favourable", "values", "answers"),
    [
        ("yes", ["no", "yes"], ["good", "bad"]),
        ("yes", ["no", "yes"], ["no", "maybe"]),
        ("yes", ["no", "yes"], ["no", "yes", "later"]),
        ("yes", ["no", "yes"], [1, 0]),
        (2, [1, 2], [0, 1]),
        ("a", ["a", "b", "c"], [0, 1]),
        ("a", ["a", "b", "c"], ["b", "c"]),
        ("yes", None, ["no", "later"]),
        ("1", ["0", "1"], ["1", 1]),
    ],
)
def test_answers_that_stand_for_nothing_are_refused(favourable, values, answers):
    with pytest.raises(ModelError, match="the model returns"):
        match_labels(target_schema(favourable, values), answers, location="m")
